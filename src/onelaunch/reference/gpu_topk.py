"""The top-k pack's two Triton steps as engines run them: one program a row."""

from __future__ import annotations

import torch

from onelaunch._triton import tl, triton


@triton.jit(do_not_specialize=["topk", "topk_stride"])
def _lengths_kernel(
    topk_ptr, topk_stride, is_valid_ptr, lengths_ptr, counts_ptr, topk, COLUMNS: tl.constexpr
):
    row = tl.program_id(0)
    column = tl.arange(0, COLUMNS)
    entry = tl.load(topk_ptr + row.to(tl.int64) * topk_stride + column, mask=column < topk, other=-1)
    length = tl.sum((entry >= 0).to(tl.int32))
    length = tl.where(tl.load(is_valid_ptr + row) != 0, length, 0)
    tl.store(lengths_ptr + row, length)
    tl.store(counts_ptr + 1 + row, length)
    if row == 0:
        tl.store(counts_ptr, 0)


def write_lengths(
    topk_indices: torch.Tensor, is_valid: torch.Tensor, lengths: torch.Tensor, counts: torch.Tensor
) -> None:
    rows, topk = topk_indices.shape
    _lengths_kernel[(rows,)](
        topk_indices,
        topk_indices.stride(0),
        is_valid,
        lengths,
        counts,
        topk,
        COLUMNS=triton.next_power_of_2(topk),
    )


@triton.jit(do_not_specialize=["topk_stride", "block_table_stride", "num_blocks", "block_size"])
def _map_kernel(
    topk_ptr,
    topk_stride,
    token_to_request_ptr,
    block_table_ptr,
    block_table_stride,
    num_blocks,
    block_size,
    lengths_ptr,
    indptr_ptr,
    ragged_ptr,
    COLUMNS: tl.constexpr,
):
    row = tl.program_id(0)
    column = tl.arange(0, COLUMNS)
    length = tl.load(lengths_ptr + row)
    taken = column < length
    entry = tl.load(topk_ptr + row.to(tl.int64) * topk_stride + column, mask=taken, other=-1)
    req = tl.load(token_to_request_ptr + row, mask=length > 0, other=0)
    logical = entry // block_size
    mapped = (entry >= 0) & (logical < num_blocks)
    block = tl.load(block_table_ptr + req.to(tl.int64) * block_table_stride + logical, mask=mapped, other=0)
    # The slots of a negative block are negative, and bounded so that int32 holds them.
    bounded = tl.maximum(block.to(tl.int64), -(2147483648 // block_size.to(tl.int64)))
    slot = (bounded * block_size + entry % block_size).to(tl.int32)
    tl.store(ragged_ptr + tl.load(indptr_ptr + row) + column, tl.where(mapped, slot, -1), mask=taken)


def write_entries(
    topk_indices: torch.Tensor,
    token_to_request: torch.Tensor,
    block_table: torch.Tensor,
    block_size: int,
    lengths: torch.Tensor,
    indptr: torch.Tensor,
    ragged_indices: torch.Tensor,
) -> None:
    rows, topk = topk_indices.shape
    _map_kernel[(rows,)](
        topk_indices,
        topk_indices.stride(0),
        token_to_request,
        block_table,
        block_table.stride(0),
        block_table.shape[1],
        block_size,
        lengths,
        indptr,
        ragged_indices,
        COLUMNS=triton.next_power_of_2(topk),
    )
