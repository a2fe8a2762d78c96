"""The readers in PyTorch: for a CPU, and to compare the kernels with."""

from __future__ import annotations

import torch
from torch import Tensor

from onelaunch.engine.attention.compressed import Compressed

_VALUES_AT_ONCE = 1 << 24  # of gathered keys: long chunks of a prompt are read in parts


def dense_torch(
    query: Tensor,
    cache: Tensor,
    indices: Tensor,
    lengths: Tensor,
    sink: Tensor,
    scale: float,
    compressed: Compressed | None = None,
) -> Tensor:
    """:func:`onelaunch.engine.attention.dense_attention`."""
    slots = indices[:, 0].long()
    column = torch.arange(slots.shape[1], device=slots.device)
    slots = slots.where(column < lengths[:, None], -1)
    return _attend(query, cache, slots, sink, scale, compressed)


def ragged_torch(
    query: Tensor,
    cache: Tensor,
    ragged_indices: Tensor,
    indptr: Tensor,
    sink: Tensor,
    scale: float,
    compressed: Compressed | None = None,
) -> Tensor:
    """:func:`onelaunch.engine.attention.ragged_attention`."""
    return _attend(query, cache, _rows(ragged_indices, indptr), sink, scale, compressed)


def _rows(ragged_indices: Tensor, indptr: Tensor) -> Tensor:
    """A ragged list as rows, -1 after each one's entries: [T, entries / T] int64."""
    most = len(ragged_indices) // max(len(indptr) - 1, 1)
    column = torch.arange(most, device=indptr.device)
    place = indptr[:-1, None].long() + column
    there = place < indptr[1:, None]
    return ragged_indices[place.clamp(max=max(len(ragged_indices) - 1, 0))].long().where(there, -1)


def _attend(
    query: Tensor, cache: Tensor, slots: Tensor, sink: Tensor, scale: float, compressed: Compressed | None
) -> Tensor:
    others = None if compressed is None else _rows(compressed.ragged_indices, compressed.indptr)
    width = slots.shape[1] + (0 if others is None else others.shape[1])
    rows_at_once = max(_VALUES_AT_ONCE // max(width * query.shape[-1], 1), 1)
    parts = []
    for start in range(0, len(query), rows_at_once):
        part = slice(start, start + rows_at_once)
        keys, there = cache[slots[part].clamp(min=0)], slots[part] >= 0
        if compressed is not None and others is not None:
            keys = torch.cat((keys, compressed.cache[others[part].clamp(min=0)]), 1)
            there = torch.cat((there, others[part] >= 0), 1)
        parts.append(_softmax_read(query[part], keys, there, sink, scale))
    return torch.cat(parts) if parts else torch.empty_like(query)


def _softmax_read(query: Tensor, keys: Tensor, there: Tensor, sink: Tensor, scale: float) -> Tensor:
    keys = keys.float()
    scores = torch.einsum("thd,tnd->thn", query.float(), keys) * scale
    scores = scores.masked_fill(~there[:, None], -torch.inf)
    with_sink = torch.cat((scores, sink[None, :, None].expand(len(query), -1, 1)), -1)
    weights = with_sink.softmax(-1)[..., :-1]
    return torch.einsum("thn,tnd->thd", weights, keys).to(query.dtype)
