"""The comparison itself: each output that a reader reads is looked at, and what nobody reads is not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from machine import DEVICE
from onelaunch import PackedTopk, StepBuilder, WindowGroup, pack_topk
from onelaunch.proof.cases import Blocks, Case, GroupCase, Request
from onelaunch.proof.compare import POISON, compare, compare_packed, compare_steps, poison
from onelaunch.proof.topk_cases import TopkCase

TARGET = WindowGroup("swa.0", window=8, block_size=4)
MAKER = WindowGroup("maker", window=8, block_size=4, make_slots=True)
DENSE = WindowGroup("dense", window=8, block_size=4, causal=False, draft_tokens=2, ragged=False)
TABLES = (Blocks(0, (5, -1, 7)), Blocks(0, (8, 9)), Blocks())
CASE = Case(
    requests=(Request(2, 10), Request(1, 6), Request(0, 3)),
    groups=tuple(GroupCase(group, columns=3, tables=TABLES) for group in (TARGET, MAKER, DENSE)),
    num_tokens=5,
    max_tokens=9,
    max_requests=3,
)


def built() -> StepBuilder:
    """A builder of the case's groups that has built the case over poisoned buffers."""
    groups, max_tokens, max_requests = CASE.setup
    builder = StepBuilder(
        groups, max_tokens=max_tokens, max_requests=max_requests, device=DEVICE, backend="reference"
    )
    poison(builder)
    builder.build(CASE.batch(DEVICE), CASE.inputs(DEVICE))
    return builder


def differences(change: Callable[[StepBuilder], object]) -> list[str]:
    """What is told of a build whose buffers were changed, by group and output."""
    expected, got = built(), built()
    change(got)
    found = compare_steps((expected, expected.views(5)), (got, got.views(5)))
    return [f"{mismatch.group}: {mismatch.output}{list(mismatch.index)}" for mismatch in found]


def flip(flags: torch.Tensor, row: int) -> None:
    flags[row] = ~flags[row]


def ragged_end(builder: StepBuilder, name: str) -> int:
    indptr = builder.buffers(name).ragged_indptr
    assert indptr is not None
    return int(indptr[5])


def add(tensor: torch.Tensor | None, *index: int) -> None:
    assert tensor is not None
    tensor[index] += 1


def test_equal_builds_have_no_differences():
    assert differences(lambda builder: None) == []


CHANGES = {
    ": token_to_request[4]": lambda b: add(b.token_to_request, 4),
    "swa.0: is_valid[4]": lambda b: flip(b.buffers("swa.0").is_valid, 4),
    "dense: lengths[0]": lambda b: add(b.buffers("dense").lengths, 0),
    "swa.0: lengths[8]": lambda b: add(b.buffers("swa.0").lengths, 8),  # the tail, past the batch's 5 rows
    "swa.0: indices[4, 0, 7]": lambda b: add(b.buffers("swa.0").indices, 4, 0, 7),  # of a padded row
    "dense: indices past the batch[8, 0, 63]": lambda b: add(b.buffers("dense").indices, 8, 0, 63),
    "maker: slot_mapping[2]": lambda b: add(b.buffers("maker").slot_mapping, 2),
    "maker: ragged_indptr[5]": lambda b: add(b.buffers("maker").ragged_indptr, 5),
    "swa.0: ragged_indices[0]": lambda b: add(b.buffers("swa.0").ragged_indices, 0),
    "last": lambda b: add(b.buffers("swa.0").ragged_indices, ragged_end(b, "swa.0") - 1),
}


@pytest.mark.parametrize("place", CHANGES)
def test_one_wrong_entry_is_told_where_it_is(place):
    (found,) = differences(CHANGES[place])
    assert found == (
        f"swa.0: ragged_indices[{ragged_end(built(), 'swa.0') - 1}]" if place == "last" else place
    )


def test_a_row_past_the_batch_that_the_usual_build_wrote_is_told_too():
    expected, got = built(), built()
    expected.buffers("swa.0").indices[5] = 1
    (found,) = compare_steps((expected, expected.views(5)), (got, got.views(5)))
    assert (found.output, found.index, found.count) == (
        "indices of the usual build past the batch",
        (5, 0, 0),
        8,
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda b: add(b.buffers("swa.0").ragged_indices, ragged_end(b, "swa.0")),
        lambda b: add(b.buffers("swa.0").ragged_indptr, 6),
        lambda b: add(b.token_to_request, 5),
        lambda b: flip(b.buffers("swa.0").is_valid, 5),
        lambda b: add(b.buffers("maker").slot_mapping, 5),
    ],
)
def test_what_nobody_reads_may_hold_anything(change):
    assert differences(change) == []


def test_poison_reaches_every_output_and_leaves_no_flag_as_a_build_would():
    builder = built()
    poison(builder)
    assert bool((builder.token_to_request == POISON).all())
    for group in builder.groups:
        buffers = builder.buffers(group.name)
        assert set(buffers.is_valid.tolist()) == {False, True}
        rest = (buffers.indices, buffers.lengths, buffers.ragged_indices, buffers.ragged_indptr)
        for buffer in (*rest, buffers.slot_mapping):
            assert buffer is None or bool((buffer == POISON).all())


@pytest.mark.parametrize(
    ("got", "shown"),
    [
        (None, "None"),
        (torch.zeros(3, dtype=torch.int64), r"torch.int64 [3]"),
        (torch.zeros(4, dtype=torch.int32), r"torch.int32 [4]"),
    ],
)
def test_another_dtype_or_shape_differs_whatever_it_holds(got, shown):
    mismatch = compare("swa.0", "lengths", torch.zeros(3, dtype=torch.int32), got)
    assert str(mismatch) == f"swa.0: lengths is {shown}, expected torch.int32 [3]"


def test_a_difference_reads_as_one_line():
    mismatch = compare("swa.0", "lengths", torch.tensor([1, 2, 3]), torch.tensor([1, 5, 4]))
    assert str(mismatch) == "swa.0: lengths[1] is 5, expected 2 (2 entries differ)"


PACK = TopkCase(topk=3, rows=((1, 2), (0,)), token_to_request=(0, 0), block_table=((4, 6),), block_size=2)


@pytest.mark.parametrize(
    ("output", "index", "told"),
    [
        ("lengths", 1, ["lengths"]),
        ("indptr", 2, ["ragged_indptr"]),
        ("ragged_indices", 2, ["ragged_indices"]),
        ("ragged_indices", 3, []),  # past indptr[T]
    ],
)
def test_each_output_of_a_pack_is_compared(output, index, told):
    expected, got = (pack_topk(*PACK.arguments(DEVICE), backend="reference") for _ in range(2))
    for packed in (expected, got):
        packed.ragged_indices[3:] = 0
    assert isinstance(got, PackedTopk)
    getattr(got, output)[index] += 1
    assert [mismatch.output for mismatch in compare_packed(expected, got)] == told
