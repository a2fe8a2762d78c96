"""Entries for the readers, in both forms, and what attention over them is in float64."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from onelaunch.engine.attention import Compressed

SLOTS = 500
SCALE = 0.2


@dataclass
class Case:
    query: torch.Tensor
    cache: torch.Tensor
    indices: torch.Tensor
    lengths: torch.Tensor
    ragged_indices: torch.Tensor
    indptr: torch.Tensor
    sink: torch.Tensor
    compressed: Compressed | None
    expected: torch.Tensor

    @property
    def dense(self):
        return (self.query, self.cache, self.indices, self.lengths, self.sink, SCALE, self.compressed)

    @property
    def ragged(self):
        return (self.query, self.cache, self.ragged_indices, self.indptr, self.sink, SCALE, self.compressed)


def packed(rows: list[list[int]], most: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A ragged list; what lies past its end may be anything."""
    flat = [slot for row in rows for slot in row]
    entries = torch.full((max(len(rows) * most, 1),), SLOTS * 9, dtype=torch.int32)
    entries[: len(flat)] = torch.tensor(flat, dtype=torch.int32)
    starts = [sum(map(len, rows[:i])) for i in range(len(rows) + 1)]
    return entries, torch.tensor(starts, dtype=torch.int32)


def make(rows, heads, dim, width, topk, *, dtype=torch.float32, device="cpu", spread=1.0) -> Case:
    """Row 0 has no entries; others have up to more than the width, some of them negative."""
    torch.manual_seed(rows * 1000 + width)
    cache, other = (torch.randn(SLOTS, dim).to(dtype) for _ in range(2))
    query = (torch.randn(rows, heads, dim) * spread).to(dtype)
    sink = torch.randn(heads) * spread
    lengths = torch.randint(0, width + 40, (rows,), dtype=torch.int32)
    lengths[0] = 0
    indices = torch.randint(-SLOTS // 8, SLOTS, (rows, 1, width), dtype=torch.int32)
    window = [[s for s in indices[t, 0, : lengths[t]].tolist() if s >= 0] for t in range(rows)]
    chosen = [torch.randint(-9, SLOTS, (int(torch.randint(0, topk + 1, ())),)).tolist() for _ in range(rows)]
    chosen[0] = []
    expected = torch.zeros(rows, heads, dim, dtype=torch.float64)
    for t in range(rows):
        keys = torch.cat((cache[window[t]], other[[s for s in chosen[t] if s >= 0]])).double()
        scores = torch.cat((query[t].double() @ keys.T * SCALE, sink[:, None].double()), 1)
        expected[t] = scores.softmax(-1)[:, :-1] @ keys
    entries, indptr = packed(window, width)
    top_entries, top_indptr = packed(chosen, max(topk, 1))
    to = {"device": device}
    compressed = Compressed(other.to(**to), top_entries.to(**to), top_indptr.to(**to)) if topk else None
    moved = (query, cache, indices, lengths, entries, indptr, sink)
    return Case(*(tensor.to(**to) for tensor in moved), compressed, expected)
