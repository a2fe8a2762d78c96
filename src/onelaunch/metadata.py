"""What a build returns: views of the persistent buffers, cut to the step's rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

import torch

from onelaunch.groups import GroupBuffers

# Steps kept by row count. An engine sees its capture sizes again and again; a stray count costs only
# the making of its views.
_KEPT_STEPS = 1024


class GroupMetadata:
    """One group's metadata of a step of T rows: views, made when they are first read.

    Attributes:
        is_valid: [T] bool.
        indices: [T, 1, width] int32.
        lengths: [T] int32, not cut at the width.
        ragged_indices: [max(T * width, 1)] int32 or None; entries past ``ragged_indptr[T]`` are unspecified.
        ragged_indptr: [T + 1] int32 or None.
        slot_mapping: [T] int64, only of a group that makes its slots; else None.
    """

    def __init__(self, buffers: GroupBuffers, num_tokens: int) -> None:
        self._buffers = buffers
        self._num_tokens = num_tokens

    @cached_property
    def is_valid(self) -> torch.Tensor:
        return self._buffers.is_valid[: self._num_tokens]

    @cached_property
    def indices(self) -> torch.Tensor:
        return self._buffers.indices[: self._num_tokens]

    @cached_property
    def lengths(self) -> torch.Tensor:
        return self._buffers.lengths[: self._num_tokens]

    @cached_property
    def ragged_indices(self) -> torch.Tensor | None:
        entries = self._buffers.ragged_indices
        width = self._buffers.indices.shape[2]
        return None if entries is None else entries[: max(self._num_tokens * width, 1)]

    @cached_property
    def ragged_indptr(self) -> torch.Tensor | None:
        indptr = self._buffers.ragged_indptr
        return None if indptr is None else indptr[: self._num_tokens + 1]

    @cached_property
    def slot_mapping(self) -> torch.Tensor | None:
        slots = self._buffers.slot_mapping
        return None if slots is None else slots[: self._num_tokens]


class StepMetadata(Mapping[str, GroupMetadata]):
    """The metadata of one decode step: ``step["swa.0"].lengths``, ``step.token_to_request``.

    The views show the buffers: the next build overwrites what they show.

    Attributes:
        token_to_request: [T] int32.
        num_tokens: T.
        backend: the path taken, "kernel" or "reference".
        reason: why.
    """

    def __init__(
        self,
        buffers: Mapping[str, GroupBuffers],
        token_to_request: torch.Tensor,
        num_tokens: int,
        backend: str,
        reason: str,
    ) -> None:
        self.num_tokens = num_tokens
        self.backend = backend
        self.reason = reason
        self.token_to_request = token_to_request[:num_tokens]
        self._groups = {name: GroupMetadata(group, num_tokens) for name, group in buffers.items()}

    def __getitem__(self, name: str) -> GroupMetadata:
        return self._groups[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._groups)

    def __len__(self) -> int:
        return len(self._groups)


class StepViews:
    """The steps of a builder by row count. Its buffers never move, so a row count has one set of views."""

    def __init__(
        self, buffers: Mapping[str, GroupBuffers], token_to_request: torch.Tensor, backend: str, reason: str
    ) -> None:
        self._source = (buffers, token_to_request)
        self._path = (backend, reason)
        self._steps: dict[int, StepMetadata] = {}

    def of(self, num_tokens: int) -> StepMetadata:
        step = self._steps.get(num_tokens)
        if step is None:
            if len(self._steps) >= _KEPT_STEPS:
                self._steps.clear()
            step = self._steps[num_tokens] = StepMetadata(*self._source, num_tokens, *self._path)
        return step
