"""What a step needs from the host: one pinned buffer, one copy, views on the device at fixed addresses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from onelaunch.engine.cache.tables import BlockTables
from onelaunch.engine.request import Request
from onelaunch.engine.scheduler import Scheduled

_ALIGNMENT = 16
_FIELDS = {
    "seed": np.int64,
    "row": np.int64,
    "num_computed": np.int64,
    "num_rows": np.int64,
    "prompt_start": np.int64,
    "is_prefill": np.bool_,
    "samples": np.bool_,
    "temperature": np.float32,
    "top_p": np.float32,
    "top_k": np.int32,
    "eos_from": np.int64,
    "known_token": np.int64,
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
        known_token: [R] int64, the token after a prefill that was computed before; -1 to sample it.
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
    known_token: Tensor
    draft_budget: Tensor
    tables: tuple[Tensor, ...]


class InputBuffer:
    """Places for the inputs of steps of any number of requests: one for each number, at a fixed address."""

    def __init__(self, tables: BlockTables, max_requests: int, device: torch.device) -> None:
        self._tables = tables
        self._unused_row = max_requests
        size = sum(_aligned(size) for *_, size in self._layout(max_requests))
        self._host = torch.zeros(size, dtype=torch.uint8, pin_memory=device.type == "cuda")
        on_cpu = device.type == "cpu"
        self._device = self._host if on_cpu else torch.zeros(size, dtype=torch.uint8, device=device)
        self._bytes: NDArray[np.uint8] = self._host.numpy()
        self._places: dict[int, _Place] = {}

    def _layout(self, num_requests: int) -> list[tuple[np.dtype[Any], tuple[int, ...], int]]:
        """Dtype, shape and bytes of each part: the fields, the budget, the tables."""
        parts: list[tuple[Any, tuple[int, ...]]] = [
            *((dtype, (num_requests,)) for dtype in _FIELDS.values()),
            (np.int64, ()),
            *((np.int32, (num_requests, width)) for width in self._tables.widths),
        ]
        return [
            (np.dtype(dtype), shape, np.dtype(dtype).itemsize * math.prod(shape)) for dtype, shape in parts
        ]

    def _place(self, num_requests: int) -> _Place:
        place = self._places.get(num_requests)
        if place is None:
            host, device, start = [], [], 0
            for dtype, shape, size in self._layout(num_requests):
                part = slice(start, start + size)
                host.append(self._bytes[part].view(dtype).reshape(shape))
                device.append(self._device[part].view(getattr(torch, dtype.name)).view(shape))
                start += _aligned(size)
            names = [*_FIELDS, "draft_budget"]
            fields = dict(zip(names, device, strict=False))
            place = self._places[num_requests] = _Place(
                dict(zip(names, host, strict=False)),
                host[len(names) :],
                StepInputs(**fields, tables=tuple(device[len(names) :])),
                start,
            )
        return place

    def upload(self, batch: Sequence[Scheduled], num_requests: int, draft_budget: int) -> StepInputs:
        """Write ``batch``, padded to ``num_requests``, and send it. The last upload must have ended."""
        place = self._place(num_requests)
        count = len(batch)
        requests = [scheduled.request for scheduled in batch]
        rows = [_row(request) for request in requests]

        def fill(name: str, values: Sequence[float], padding: float = 0) -> None:
            array = place.fields[name]
            array[:count] = values
            array[count:] = padding

        fill("seed", [request.seed for request in requests])
        fill("row", rows, self._unused_row)
        fill("num_computed", [request.num_computed for request in requests])
        fill("num_rows", [scheduled.num_rows for scheduled in batch])
        fill("prompt_start", _starts(batch))
        fill("is_prefill", [not request.decoding for request in requests])
        fill("samples", [scheduled.samples for scheduled in batch])
        fill("temperature", [request.params.temperature for request in requests])
        fill("top_p", [request.params.top_p for request in requests], 1)
        fill("top_k", [request.params.top_k for request in requests])
        fill("eos_from", [_eos_from(request) for request in requests])
        fill("known_token", [-1 if (token := request.known_token) is None else token for request in requests])
        place.fields["draft_budget"][()] = draft_budget
        for array, table in zip(place.tables, self._tables.tables, strict=True):
            array[:count] = table[rows]
            array[count:] = 0
        if self._device is not self._host:
            self._device[: place.size].copy_(self._host[: place.size], non_blocking=True)
        return place.inputs


@dataclass(frozen=True, slots=True, eq=False)
class _Place:
    """The inputs of one number of requests: what the host writes, what the device reads, bytes of both."""

    fields: dict[str, NDArray[Any]]
    tables: list[NDArray[np.int32]]
    inputs: StepInputs
    size: int


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


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
