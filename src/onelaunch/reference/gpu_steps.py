"""The steps as one launch each, the way engines run them: small Triton kernels of one program a row.

Baseline and fallback, so kept as plain as what it stands for, scalar loads of per-step inputs included (on
some AMD GPUs those may be stale in a replayed graph: ROCm/ATOM 1434; the one-launch kernel has none). Shares
no code with the one-launch kernel: the two are compared with each other.
"""

from __future__ import annotations

import torch

from onelaunch._triton import tl, triton
from onelaunch.batch import DecodeBatch
from onelaunch.groups import WindowGroup

_REQUEST_BLOCK = 1024


@triton.jit(do_not_specialize=["num_requests"])
def _token_to_request_kernel(query_start_loc_ptr, out_ptr, num_requests, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    ended = tl.zeros([BLOCK], tl.int32)
    for first in range(0, num_requests, BLOCK):
        req = first + tl.arange(0, BLOCK)
        end = tl.load(query_start_loc_ptr + 1 + req, mask=req < num_requests, other=2147483647)
        ended += (end <= row).to(tl.int32)
    request = tl.sum(ended)
    tl.store(out_ptr + row, tl.where(request < num_requests, request, 0))


def token_to_request(query_start_loc: torch.Tensor, out: torch.Tensor) -> None:
    _token_to_request_kernel[(out.shape[0],)](
        query_start_loc, out, query_start_loc.shape[0] - 1, BLOCK=_REQUEST_BLOCK
    )


@triton.jit(do_not_specialize=["num_requests", "block_table_stride", "num_blocks"])
def _slot_mapping_kernel(
    out_ptr,
    query_start_loc_ptr,
    seq_lens_ptr,
    token_to_request_ptr,
    num_requests,
    block_table_ptr,
    block_table_stride,
    num_blocks,
    BLOCK_SIZE: tl.constexpr,
):
    row = tl.program_id(0)
    slot = tl.full((), -1, tl.int64)
    if num_requests > 0:
        if row < tl.load(query_start_loc_ptr + num_requests):
            req = tl.load(token_to_request_ptr + row)
            seq_len = tl.maximum(tl.load(seq_lens_ptr + req), -1073741824)
            position = seq_len - tl.load(query_start_loc_ptr + req + 1) + row
            logical = position // BLOCK_SIZE
            if (position >= 0) & (logical < num_blocks):
                block = tl.load(block_table_ptr + req.to(tl.int64) * block_table_stride + logical)
                if block >= 0:
                    slot = block.to(tl.int64) * BLOCK_SIZE + position % BLOCK_SIZE
    tl.store(out_ptr + row, slot)


def slot_mapping(
    group: WindowGroup, block_table: torch.Tensor, batch: DecodeBatch, req: torch.Tensor, out: torch.Tensor
) -> None:
    _slot_mapping_kernel[(out.shape[0],)](
        out,
        batch.query_start_loc,
        batch.seq_lens,
        req,
        batch.seq_lens.shape[0],
        block_table,
        block_table.stride(0),
        block_table.shape[1],
        BLOCK_SIZE=group.block_size,
    )


@triton.jit(do_not_specialize=["num_requests", "block_table_stride", "num_blocks"])
def _window_indices_kernel(
    indices_ptr,
    lengths_ptr,
    is_valid_ptr,
    query_start_loc_ptr,
    seq_lens_ptr,
    replay_start_ptr,
    token_to_request_ptr,
    num_requests,
    block_table_ptr,
    block_table_stride,
    num_blocks,
    WINDOW: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    CAUSAL: tl.constexpr,
    HAS_REPLAY: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    row = tl.program_id(0)
    column = tl.arange(0, COLUMNS)
    row_ptr = indices_ptr + row.to(tl.int64) * WIDTH
    live = tl.load(is_valid_ptr + row) != 0
    if live:
        live = row < tl.load(query_start_loc_ptr + num_requests)
    if live:
        req = tl.load(token_to_request_ptr + row)
        q_start = tl.load(query_start_loc_ptr + req)
        # Bounded below, so that no difference wraps: a row before its sequence has length 0 anyhow.
        seq_len = tl.maximum(tl.load(seq_lens_ptr + req), -1073741824)
        prefix = seq_len - (tl.load(query_start_loc_ptr + req + 1) - q_start)
        if CAUSAL:
            position = prefix + row - q_start
            start = tl.maximum(position - (WINDOW - 1), 0)
            if HAS_REPLAY:
                start = tl.maximum(start, tl.load(replay_start_ptr + req))
            end = position + 1
        else:
            start = tl.maximum(prefix - WINDOW, 0)
            end = seq_len
        length = tl.where(end > start, end - start, 0)
        tl.store(lengths_ptr + row, length)
        p = start + column
        logical = p // BLOCK_SIZE
        inside = (column < length) & (column < WIDTH) & (logical < num_blocks)
        block = tl.load(
            block_table_ptr + req.to(tl.int64) * block_table_stride + logical, mask=inside, other=0
        )
        block = tl.maximum(block, -(2147483648 // BLOCK_SIZE))  # the slots of a negative block fit in int32
        slot = block * BLOCK_SIZE + p % BLOCK_SIZE
        tl.store(row_ptr + column, tl.where(inside, slot, -1), mask=column < WIDTH)
    else:
        tl.store(lengths_ptr + row, 0)
        tl.store(row_ptr + column, tl.full([COLUMNS], -1, tl.int32), mask=column < WIDTH)


def window_indices(
    group: WindowGroup,
    block_table: torch.Tensor,
    batch: DecodeBatch,
    req: torch.Tensor,
    is_valid: torch.Tensor,
    indices: torch.Tensor,
    lengths: torch.Tensor,
) -> None:
    replay_start = batch.replay_start
    _window_indices_kernel[(lengths.shape[0],)](
        indices,
        lengths,
        is_valid,
        batch.query_start_loc,
        batch.seq_lens,
        batch.seq_lens if replay_start is None else replay_start,
        req,
        batch.seq_lens.shape[0],
        block_table,
        block_table.stride(0),
        block_table.shape[1],
        WINDOW=group.window,
        WIDTH=group.width,
        BLOCK_SIZE=group.block_size,
        CAUSAL=group.causal,
        HAS_REPLAY=replay_start is not None,
        COLUMNS=triton.next_power_of_2(group.width),
    )


@triton.jit
def _row_count_kernel(indices_ptr, lengths_ptr, counts_ptr, WIDTH: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, COLUMNS)
    inside = (column < tl.load(lengths_ptr + row)) & (column < WIDTH)
    entry = tl.load(indices_ptr + row.to(tl.int64) * WIDTH + column, mask=inside, other=-1)
    tl.store(counts_ptr + 1 + row, tl.sum((entry >= 0).to(tl.int32)))
    if row == 0:
        tl.store(counts_ptr, 0)


def row_count(indices: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    width = indices.shape[2]
    # Two rows, the second never read: PyTorch scans a single row with two kernels (CUB), several with one.
    counts = torch.empty(2, lengths.shape[0] + 1, dtype=torch.int32, device=lengths.device)
    _row_count_kernel[(lengths.shape[0],)](
        indices, lengths, counts, WIDTH=width, COLUMNS=triton.next_power_of_2(width)
    )
    return counts


def cumsum(counts: torch.Tensor) -> torch.Tensor:
    return torch.cumsum(counts, dim=1, dtype=torch.int32)[0]


@triton.jit
def _compact_kernel(
    indices_ptr, lengths_ptr, indptr_ptr, entries_ptr, WIDTH: tl.constexpr, COLUMNS: tl.constexpr
):
    row = tl.program_id(0)
    column = tl.arange(0, COLUMNS)
    inside = (column < tl.load(lengths_ptr + row)) & (column < WIDTH)
    entry = tl.load(indices_ptr + row.to(tl.int64) * WIDTH + column, mask=inside, other=-1)
    keep = entry >= 0
    rank = tl.cumsum(keep.to(tl.int32), axis=0) - 1
    tl.store(entries_ptr + tl.load(indptr_ptr + row) + rank, entry, mask=keep)


def compact(indices: torch.Tensor, lengths: torch.Tensor, indptr: torch.Tensor) -> torch.Tensor:
    rows, _, width = indices.shape
    entries = torch.empty(rows * width, dtype=torch.int32, device=indices.device)
    _compact_kernel[(rows,)](
        indices, lengths, indptr, entries, WIDTH=width, COLUMNS=triton.next_power_of_2(width)
    )
    return entries
