"""A kernel's build and vLLM's own, over the same buffers, compared exactly. All of this synchronises."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from onelaunch.groups import GroupBuffers
from onelaunch.proof.compare import POISON, Mismatch, compare


@dataclasses.dataclass(frozen=True, slots=True)
class Extent:
    """The part of a group's buffers that vLLM's build of one batch writes: the rest is not to be touched.

    Attributes:
        slots: rows of the slot mapping.
        rows: decode rows, at most ``slots``.
    """

    slots: int
    rows: int

    def cut(self, buffers: GroupBuffers) -> GroupBuffers:
        width = buffers.indices.shape[-1]
        ragged, indptr = buffers.ragged_indices, buffers.ragged_indptr
        return GroupBuffers(
            is_valid=buffers.is_valid[: self.slots],
            indices=buffers.indices[: self.rows],
            lengths=buffers.lengths,  # zero past the rows, to its end
            ragged_indices=None if ragged is None else ragged[: self.rows * width],
            ragged_indptr=None if indptr is None else indptr[: self.rows + 1],
            slot_mapping=None,
        )


def poison(part: GroupBuffers) -> None:
    """Overwrite a part, so that an entry which the kernel leaves out can't look right by what was there."""
    part.is_valid.fill_(False)
    part.is_valid[::2] = True
    for buffer in (part.indices, part.lengths, part.ragged_indices, part.ragged_indptr):
        if buffer is not None:
            buffer.fill_(POISON)


def snapshot(part: GroupBuffers) -> GroupBuffers:
    """A copy, before vLLM's own build writes over it."""

    def copied(buffer: torch.Tensor | None) -> torch.Tensor | None:
        return None if buffer is None else buffer.clone()

    return GroupBuffers(
        is_valid=part.is_valid.clone(),
        indices=part.indices.clone(),
        lengths=part.lengths.clone(),
        ragged_indices=copied(part.ragged_indices),
        ragged_indptr=copied(part.ragged_indptr),
        slot_mapping=None,
    )


def differences(name: str, expected: GroupBuffers, got: GroupBuffers) -> list[Mismatch]:
    """Entries that differ. Ragged entries past the last row's end are unspecified, and nobody reads them."""
    found = [
        compare(name, field, getattr(expected, field), getattr(got, field))
        for field in ("is_valid", "lengths", "indices", "ragged_indptr")
    ]
    if (
        expected.ragged_indices is not None
        and expected.ragged_indptr is not None
        and got.ragged_indices is not None
    ):
        total = int(expected.ragged_indptr[-1])
        found.append(
            compare(name, "ragged_indices", expected.ragged_indices[:total], got.ragged_indices[:total])
        )
    return [mismatch for mismatch in found if mismatch is not None]


def field_differences(name: str, expected: Any, got: Any) -> list[Mismatch]:
    """Fields of two metadata objects that are not the same thing: values, or tensors over the same memory."""
    if type(expected) is not type(got):
        return [Mismatch(name, "metadata", (), type(expected).__name__, type(got).__name__)]
    found = []
    for field in dataclasses.fields(expected):
        want, have = _described(getattr(expected, field.name)), _described(getattr(got, field.name))
        if want != have:
            found.append(Mismatch(name, field.name, (), want, have))
    return found


def _described(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        place = f"{value.device} {value.data_ptr():#x}"
        return f"{value.dtype} {list(value.shape)} by {list(value.stride())} at {place}"
    if value is None or isinstance(value, int | str | dict):
        return repr(value)
    return type(value).__name__  # a tile schedule: made anew by every build
