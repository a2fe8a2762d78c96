"""What a step needs from the host: one pinned buffer, one copy, views on the device at fixed addresses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from onelaunch.engine.cache.tables import BlockTables
from onelaunch.engine.request import Request
from onelaunch.engine.scheduler import Scheduled

_ALIGNMENT = 16
_FIELDS = {
    "seed": torch.int64,
    "row": torch.int64,
    "num_computed": torch.int64,
    "num_rows": torch.int64,
    "prompt_start": torch.int64,
    "is_prefill": torch.bool,
    "samples": torch.bool,
    "temperature": torch.float32,
    "top_p": torch.float32,
    "top_k": torch.int32,
    "eos_from": torch.int64,
}


@dataclass(frozen=True, slots=True, eq=False)
class StepInputs:
    """One step's requests on the device, R of them; padding requests come last and have no rows.

    Attributes:
        row: [R] int64, each request's row of the state; a padding request's is one that nobody reads.
        num_computed: [R] int64, tokens in the cache.
        num_rows: [R] int64, rows at most; of a prefill exactly.
        prompt_start: [R] int64, where a prefill's tokens begin among the step's prompt tokens.
        is_prefill, samples: [R] bool.
        seed, temperature, top_p, top_k: [R], of sampling.
        eos_from: [R] int64, the first position that may hold the end-of-sequence token.
        draft_budget: [] int64, drafts that the step verifies at most.
        tables: [R, B] int32 a cache group.
    """

    seed: Tensor
    row: Tensor
    num_computed: Tensor
    num_rows: Tensor
    prompt_start: Tensor
    is_prefill: Tensor
    samples: Tensor
    temperature: Tensor
    top_p: Tensor
    top_k: Tensor
    eos_from: Tensor
    draft_budget: Tensor
    tables: tuple[Tensor, ...]


class InputBuffer:
    """Places for the inputs of steps of any number of requests. A number of requests has one place for each
    field.
    """

    def __init__(self, tables: BlockTables, max_requests: int, device: torch.device) -> None:
        self._tables = tables
        self._unused_row = max_requests
        size = self._size(max_requests)
        self._host = torch.zeros(size, dtype=torch.uint8, pin_memory=device.type == "cuda")
        self._device = (
            self._host if device.type == "cpu" else torch.zeros(size, dtype=torch.uint8, device=device)
        )
        self._places: dict[int, tuple[StepInputs, StepInputs]] = {}

    def _shapes(self, num_requests: int) -> list[tuple[torch.dtype, tuple[int, ...]]]:
        fields = [(dtype, (num_requests,)) for dtype in _FIELDS.values()]
        tables = [(torch.int32, (num_requests, width)) for width in self._tables.widths]
        return [*fields, (torch.int64, ()), *tables]

    def _size(self, num_requests: int) -> int:
        return sum(_aligned(_num_bytes(*shape)) for shape in self._shapes(num_requests))

    def _views(self, buffer: Tensor, num_requests: int) -> StepInputs:
        views, start = [], 0
        for dtype, shape in self._shapes(num_requests):
            size = _num_bytes(dtype, shape)
            views.append(buffer[start : start + size].view(dtype).view(shape))
            start += _aligned(size)
        count = len(_FIELDS) + 1
        return StepInputs(*views[:count], tuple(views[count:]))

    def place(self, num_requests: int) -> StepInputs:
        """Where the inputs of ``num_requests`` are, padding included."""
        return self._place(num_requests)[1]

    def _place(self, num_requests: int) -> tuple[StepInputs, StepInputs]:
        if num_requests not in self._places:
            self._places[num_requests] = (
                self._views(self._host, num_requests),
                self._views(self._device, num_requests),
            )
        return self._places[num_requests]

    def upload(self, batch: Sequence[Scheduled], num_requests: int, draft_budget: int) -> StepInputs:
        """Write ``batch``, padded to ``num_requests``, and send it. The last upload must have ended."""
        host, device = self._place(num_requests)
        count = len(batch)
        requests = [scheduled.request for scheduled in batch]

        def fill(field: Tensor, values: Sequence[float], padding: float = 0) -> None:
            array = field.numpy()
            array[:count] = values
            array[count:] = padding

        fill(host.seed, [request.seed for request in requests])
        fill(host.row, [_row(request) for request in requests], self._unused_row)
        fill(host.num_computed, [request.num_computed for request in requests])
        fill(host.num_rows, [scheduled.num_rows for scheduled in batch])
        fill(host.prompt_start, _starts(batch))
        fill(host.is_prefill, [not request.decoding for request in requests])
        fill(host.samples, [scheduled.samples for scheduled in batch])
        fill(host.temperature, [request.params.temperature for request in requests])
        fill(host.top_p, [request.params.top_p for request in requests], 1)
        fill(host.top_k, [request.params.top_k for request in requests])
        fill(host.eos_from, [_eos_from(request) for request in requests])
        host.draft_budget.fill_(draft_budget)
        rows = [_row(request) for request in requests]
        for view, table in zip(host.tables, self._tables.tables, strict=True):
            array = view.numpy()
            np.take(table, rows, axis=0, out=array[:count])
            array[count:] = 0
        if self._device is not self._host:
            used = self._size(num_requests)
            self._device[:used].copy_(self._host[:used], non_blocking=True)
        return device


def prompt_tokens(batch: Sequence[Scheduled]) -> list[int]:
    """The tokens of the step's prefills, one request's after another's."""
    tokens: list[int] = []
    for scheduled in batch:
        request = scheduled.request
        if not request.decoding:
            tokens += request.tokens[request.num_computed : request.num_computed + scheduled.num_rows]
    return tokens


def _starts(batch: Sequence[Scheduled]) -> list[int]:
    starts, start = [], 0
    for scheduled in batch:
        starts.append(start)
        start += 0 if scheduled.request.decoding else scheduled.num_rows
    return starts


def _row(request: Request) -> int:
    assert request.row is not None
    return request.row


def _eos_from(request: Request) -> int:
    return len(request.prompt_token_ids) + request.params.min_tokens


def _num_bytes(dtype: torch.dtype, shape: tuple[int, ...]) -> int:
    return dtype.itemsize * int(np.prod(shape, dtype=np.int64))


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
