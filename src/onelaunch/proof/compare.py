"""Two builds of one batch compared exactly, on every output that a reader reads, over poisoned buffers."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from onelaunch.builder import StepBuilder
from onelaunch.metadata import StepMetadata
from onelaunch.topk import PackedTopk

POISON = -7777  # no slot, no length and no row count: an entry left unwritten shows

Value = int | str


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One output that differs, shown by its first differing entry.

    Attributes:
        group: the group's name, "" for what all groups share.
        output: which output, as a reader would write it.
        index: of the first differing entry; empty when no single entry is meant.
        expected, got: that entry in the usual build, and in the build under test.
        count: differing entries.
    """

    group: str
    output: str
    index: tuple[int, ...]
    expected: Value
    got: Value
    count: int = 1

    def __str__(self) -> str:
        place = f"{self.group}: " if self.group else ""
        entry = str(list(self.index)) if self.index else ""
        more = f" ({self.count} entries differ)" if self.count > 1 else ""
        return f"{place}{self.output}{entry} is {self.got}, expected {self.expected}{more}"


def poison(builder: StepBuilder) -> None:
    """Overwrite every persistent output, so that nothing a build did not write can look right."""
    builder.token_to_request.fill_(POISON)
    for group in builder.groups:
        buffers = builder.buffers(group.name)
        # Either constant could be what a build should write: alternate.
        buffers.is_valid.fill_(False)
        buffers.is_valid[::2] = True
        for buffer in (
            buffers.indices,
            buffers.lengths,
            buffers.ragged_indices,
            buffers.ragged_indptr,
            buffers.slot_mapping,
        ):
            if buffer is not None:
                buffer.fill_(POISON)


def compare_steps(
    expected: tuple[StepBuilder, StepMetadata], got: tuple[StepBuilder, StepMetadata]
) -> list[Mismatch]:
    """What differs between two builds of one batch, whose buffers were poisoned before; synchronises.

    Args:
        expected, got: the builder and the step it returned. Both builders have the same groups.
    """
    (expected_builder, expected_step), (got_builder, got_step) = expected, got
    found = [compare("", "token_to_request", expected_step.token_to_request, got_step.token_to_request)]
    num_tokens = expected_step.num_tokens
    for group in expected_builder.groups:
        name = group.name
        ours, theirs = expected_step[name], got_step[name]
        our_buffers, their_buffers = expected_builder.buffers(name), got_builder.buffers(name)
        found += [
            compare(name, "is_valid", ours.is_valid, theirs.is_valid),
            # The whole buffer: a graph's reader sees lengths past the batch, which must be zero.
            compare(name, "lengths", our_buffers.lengths, their_buffers.lengths),
            compare(name, "indices", ours.indices, theirs.indices),
            _left_alone(name, "indices", their_buffers.indices, num_tokens),
            _left_alone(name, "indices of the usual build", our_buffers.indices, num_tokens),
            compare(name, "slot_mapping", ours.slot_mapping, theirs.slot_mapping),
            *_compare_ragged(
                name, ours.ragged_indices, ours.ragged_indptr, theirs.ragged_indices, theirs.ragged_indptr
            ),
        ]
    return [mismatch for mismatch in found if mismatch is not None]


def compare_packed(expected: PackedTopk, got: PackedTopk) -> list[Mismatch]:
    """What differs between two top-k packs of the same rows; synchronises."""
    found = [
        compare("", "lengths", expected.lengths, got.lengths),
        *_compare_ragged("", expected.ragged_indices, expected.indptr, got.ragged_indices, got.indptr),
    ]
    return [mismatch for mismatch in found if mismatch is not None]


def compare(
    group: str, output: str, expected: torch.Tensor | None, got: torch.Tensor | None
) -> Mismatch | None:
    """The first difference of two integer or bool tensors, None when there is none; dtypes must agree too."""
    if expected is None or got is None:
        if expected is got:
            return None
        return Mismatch(group, output, (), _described(expected), _described(got))
    if expected.dtype != got.dtype or expected.shape != got.shape:
        return Mismatch(group, output, (), _described(expected), _described(got))
    if torch.equal(expected, got):
        return None
    places = (expected != got).nonzero()
    index = tuple(places[0].tolist())
    want, have = (int(value[index]) for value in (expected, got))
    return Mismatch(group, output, index, want, have, len(places))


def _described(tensor: torch.Tensor | None) -> str:
    return "None" if tensor is None else f"{tensor.dtype} {list(tensor.shape)}"


def _compare_ragged(
    group: str,
    expected: torch.Tensor | None,
    expected_indptr: torch.Tensor | None,
    got: torch.Tensor | None,
    got_indptr: torch.Tensor | None,
) -> list[Mismatch | None]:
    """``indptr`` whole, and the entries up to its last: those past it are unspecified."""
    found = [compare(group, "ragged_indptr", expected_indptr, got_indptr)]
    if expected is None or expected_indptr is None or got is None:
        return [*found, compare(group, "ragged_indices", expected, got)]
    if expected.shape != got.shape:
        return [*found, Mismatch(group, "ragged_indices", (), _described(expected), _described(got))]
    total = int(expected_indptr[-1])
    return [*found, compare(group, "ragged_indices", expected[:total], got[:total])]


def _left_alone(group: str, output: str, buffer: torch.Tensor, num_tokens: int) -> Mismatch | None:
    """The rows from T on must still hold the poison."""
    written = (buffer[num_tokens:] != POISON).nonzero()
    if not len(written):
        return None
    row, *rest = written[0].tolist()
    index = (num_tokens + row, *rest)
    return Mismatch(group, f"{output} past the batch", index, POISON, int(buffer[index]), len(written))
