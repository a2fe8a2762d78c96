"""The steps in plain PyTorch: the metadata's definition, a few lines each.

Shapes: R requests, T rows, W window, BS block size; see docs/metadata.md. Arithmetic is in int64.
"""

from __future__ import annotations

import torch

from onelaunch.batch import DecodeBatch
from onelaunch.groups import WindowGroup


def token_to_request(query_start_loc: torch.Tensor, out: torch.Tensor) -> None:
    """The request of each row: how many requests end at or before it. 0 for a row of no request."""
    rows = torch.arange(out.shape[0], device=out.device, dtype=torch.int32)
    req = torch.searchsorted(query_start_loc[1:].contiguous(), rows, right=True)
    out.copy_(torch.where(rows < query_start_loc[-1], req, 0))


def _positions(batch: DecodeBatch, req: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(in a request, prefix, position) of each row."""
    rows = torch.arange(req.shape[0], device=req.device)
    starts, seq_lens = batch.query_start_loc.long(), batch.seq_lens.long()
    in_request = rows < starts[-1]
    if seq_lens.shape[0] == 0:  # no request to gather from
        return in_request, rows, rows
    index = req.long()
    prefix = seq_lens[index] - (starts[index + 1] - starts[index])
    return in_request, prefix, prefix + rows - starts[index]


def _slots(
    group: WindowGroup,
    block_table: torch.Tensor,
    req: torch.Tensor,
    position: torch.Tensor,
    inside: torch.Tensor,
) -> torch.Tensor:
    """The slot at each position, -1 outside ``inside`` and where the table ends. Never reads past the table.

    Of a negative block it is negative. The block is bounded below, so that int32 holds its slots.
    """
    logical = position // group.block_size
    inside = inside & (position >= 0) & (logical < block_table.shape[1])
    slots = torch.full_like(position, -1)
    block = block_table[req.long().expand_as(position)[inside], logical[inside]].long()
    block = block.clamp(min=-(2**31 // group.block_size))
    slots[inside] = block * group.block_size + position[inside] % group.block_size
    return slots


def slot_mapping(
    group: WindowGroup, block_table: torch.Tensor, batch: DecodeBatch, req: torch.Tensor, out: torch.Tensor
) -> None:
    """Where each row's own KV goes: the slot of its position, -1 where there is no block or no request."""
    in_request, _, position = _positions(batch, req)
    out.copy_(_slots(group, block_table, req, position, in_request).clamp_(min=-1))


def window_indices(
    group: WindowGroup,
    block_table: torch.Tensor,
    batch: DecodeBatch,
    req: torch.Tensor,
    is_valid: torch.Tensor,
    indices: torch.Tensor,
    lengths: torch.Tensor,
) -> None:
    """The slots in each row's window, then -1; and the window's positions, not cut at the width."""
    in_request, prefix, position = _positions(batch, req)
    live = is_valid & in_request
    if group.causal:
        start, end = (position - (group.window - 1)).clamp(min=0), position + 1
        if batch.replay_start is not None and batch.replay_start.shape[0]:
            start = torch.maximum(start, batch.replay_start.long()[req.long()])
    else:
        start = (prefix - group.window).clamp(min=0)
        end = prefix if batch.seq_lens.shape[0] == 0 else batch.seq_lens.long()[req.long()]
    length = torch.where(live, (end - start).clamp(min=0), 0)
    column = torch.arange(group.width, device=indices.device)
    slots = _slots(
        group, block_table, req[:, None], start[:, None] + column, column[None, :] < length[:, None]
    )
    lengths.copy_(length)
    indices[:, 0, :] = slots.int()


def _kept(indices: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """[T, width] bool: entries inside the row's length that are not negative."""
    column = torch.arange(indices.shape[2], device=indices.device)
    return (column[None, :] < lengths[:, None]) & (indices[:, 0, :] >= 0)


def row_count(indices: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """[T + 1] int32: 0, then the entries each row keeps."""
    counts = _kept(indices, lengths).sum(dim=1)
    return torch.cat([counts.new_zeros(1), counts]).int()


def cumsum(counts: torch.Tensor) -> torch.Tensor:
    """[T + 1] int32: where each row's entries start, and where the last row's end."""
    return torch.cumsum(counts, dim=0, dtype=torch.int32)


def compact(indices: torch.Tensor, lengths: torch.Tensor, indptr: torch.Tensor) -> torch.Tensor:
    """[indptr[T]] int32: the kept entries, row after row."""
    del indptr  # a boolean mask keeps the order by itself
    return indices[:, 0, :][_kept(indices, lengths)]
