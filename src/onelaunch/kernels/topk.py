"""The one-launch top-k pack: each row's chosen compressed entries as global slots, row after row.

A row's place in the ragged list depends on how many entries every earlier row has, which only its data tell.
Recounting them in every program would read quadratically, so programs publish their counts and add up those
before theirs (:mod:`.scan`).
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from onelaunch._triton import tl, triton
from onelaunch.kernels.compiled import current_target, is_amd, launcher, load, require_interpreter
from onelaunch.kernels.scan import num_words, publish, sum_before, teams_of
from onelaunch.launches import launched

_TILE = 2048  # entries a program holds at once: 8 a thread
_NUM_WARPS = 8
# Programs at most, each taking several tiles in turn beyond that: it bounds the scan's words.
_PROGRAMS = 128
_MAX_TEAMS = teams_of(_PROGRAMS)
NUM_WORDS = num_words(_MAX_TEAMS)


@triton.jit
def _rows(topk_ptr, topk_stride, is_valid_ptr, rows, num_tokens, topk, COLUMNS: tl.constexpr):
    """(entries of the rows, [N, COLUMNS]; length of each row, [N])."""
    columns = tl.arange(0, COLUMNS)
    valid = tl.load(is_valid_ptr + rows, mask=rows < num_tokens, other=0) != 0
    entries = tl.load(
        topk_ptr + rows.to(tl.int64)[:, None] * topk_stride + columns[None, :],
        mask=valid[:, None] & (columns < topk)[None, :],
        other=-1,
    )
    return entries, tl.sum((entries >= 0).to(tl.int32), axis=1)


@triton.jit
def pack_topk_kernel(
    topk_ptr,
    token_to_request_ptr,
    is_valid_ptr,
    block_table_ptr,
    ragged_ptr,
    indptr_ptr,
    lengths_ptr,
    words_ptr,
    topk_stride,
    num_tokens,
    topk,
    block_table_stride,
    num_blocks,
    block_size,
    tiles,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    MAX_TEAMS: tl.constexpr,
    AMD: tl.constexpr,
):
    """``tiles`` tiles of ROWS rows a program. words_ptr: [num_words(MAX_TEAMS)] int64, the scan's words."""
    program = tl.program_id(0)
    programs = tl.num_programs(0)
    first_row = program * ROWS * tiles

    count = 0
    for tile in tl.range(0, tiles):
        rows = first_row + tile * ROWS + tl.arange(0, ROWS)
        _, lengths = _rows(topk_ptr, topk_stride, is_valid_ptr, rows, num_tokens, topk, COLUMNS)
        tl.store(lengths_ptr + rows, lengths, mask=rows < num_tokens)
        count += tl.sum(lengths)
    generation = publish(words_ptr, program, programs, count, MAX_TEAMS, False, AMD)
    offset = sum_before(words_ptr, program, programs, generation, MAX_TEAMS, False, AMD)

    least_block = -(2147483648 // block_size.to(tl.int64)).to(tl.int32)
    for tile in tl.range(0, tiles):
        rows = first_row + tile * ROWS + tl.arange(0, ROWS)
        in_batch = rows < num_tokens
        entries, lengths = _rows(topk_ptr, topk_stride, is_valid_ptr, rows, num_tokens, topk, COLUMNS)
        ends = offset + tl.cumsum(lengths, axis=0)
        tl.store(indptr_ptr + 1 + rows, ends, mask=in_batch)
        tl.store(indptr_ptr + rows, tl.zeros([ROWS], tl.int32), mask=rows == 0)
        req = tl.load(token_to_request_ptr + rows, mask=in_batch & (lengths > 0), other=0)
        columns = tl.arange(0, COLUMNS)
        taken = columns[None, :] < lengths[:, None]
        logical = entries // block_size
        mapped = taken & (entries >= 0) & (logical < num_blocks)
        table_row = block_table_ptr + req.to(tl.int64) * block_table_stride
        block = tl.load(table_row[:, None] + logical, mask=mapped, other=0)
        # The slots of a negative block are negative, and bounded so that int32 holds them.
        slots = tl.maximum(block, least_block) * block_size + entries % block_size
        tl.store(
            ragged_ptr + (ends - lengths)[:, None] + columns[None, :], tl.where(mapped, slots, -1), mask=taken
        )
        offset += tl.sum(lengths)


def topk_constants(topk: int, target: Any) -> dict[str, int]:
    """Compile-time arguments for a ``GPUTarget``, None in the interpreter: one kernel a power of two."""
    columns = triton.next_power_of_2(topk)
    rows = min(_TILE // columns, 64)
    return {"ROWS": rows, "COLUMNS": columns, "MAX_TEAMS": _MAX_TEAMS, "AMD": is_amd(target)}


def compile_topk(topk: int, target: Any) -> Any:
    """The compiled kernel for a ``triton.backends.compiler.GPUTarget``; needs no GPU."""
    from triton.compiler import ASTSource

    constants = topk_constants(topk, target)
    signature = dict(
        topk_ptr="*i32",
        token_to_request_ptr="*i32",
        is_valid_ptr="*i1",
        block_table_ptr="*i32",
        ragged_ptr="*i32",
        indptr_ptr="*i32",
        lengths_ptr="*i32",
        words_ptr="*i64",
        topk_stride="i32",
        num_tokens="i32",
        topk="i32",
        block_table_stride="i32",
        num_blocks="i32",
        block_size="i32",
        tiles="i32",
        **dict.fromkeys(constants, "constexpr"),
    )
    source = ASTSource(fn=pack_topk_kernel, signature=signature, constexprs=constants, attrs={})
    return triton.compile(source, target=target, options={"num_warps": _NUM_WARPS})


@cache
def _loaded(columns: int, device_index: int) -> Any:
    return load(lambda: compile_topk(columns, current_target()), device_index)


def launch_topk(
    topk_indices: torch.Tensor,
    token_to_request: torch.Tensor,
    is_valid: torch.Tensor,
    block_table: torch.Tensor,
    block_size: int,
    ragged_indices: torch.Tensor,
    indptr: torch.Tensor,
    lengths: torch.Tensor,
    words: torch.Tensor,
) -> None:
    """Launch the pack once; shapes as in ``onelaunch.pack_topk``, words [NUM_WORDS] int64."""
    rows, topk = topk_indices.shape
    constants = topk_constants(topk, None)
    programs = max(min(-(-rows // constants["ROWS"]), _PROGRAMS), 1)
    tensors = (
        topk_indices,
        token_to_request,
        is_valid,
        block_table,
        ragged_indices,
        indptr,
        lengths,
        words,
    )
    sizes = (
        topk_indices.stride(0),
        rows,
        topk,
        block_table.stride(0),
        block_table.shape[1],
        block_size,
        max(-(-rows // (constants["ROWS"] * programs)), 1),
    )
    device = topk_indices.device
    if device.type == "cpu":
        require_interpreter()
        pack_topk_kernel[(programs,)](*tensors, *sizes, **constants)
        launched("pack_topk")
        return
    compiled = _loaded(constants["COLUMNS"], device.index)
    arguments = (*(t.data_ptr() for t in tensors), *sizes, *(None for _ in constants))
    launcher(compiled, (programs, 1, 1), device.index, arguments, "pack_topk")()
