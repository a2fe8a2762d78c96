"""Steps in a row as an engine makes them: nothing of one step shows in a later one, by either path.

Random sequences run beside each path's own tests; here are those that public fault reports describe.
"""

from __future__ import annotations

import pytest
import torch

from machine import DEVICE
from onelaunch import DecodeBatch, GroupInputs, StepBuilder, WindowGroup
from onelaunch.proof.compare import POISON, poison
from oracle import check_step

GROUPS = (
    WindowGroup("swa.0", window=8, block_size=4),
    WindowGroup("swa.1", window=8, block_size=4, make_slots=True),
    WindowGroup("draft.0", window=8, block_size=4, causal=False, draft_tokens=3),
)
MAX_TOKENS, MAX_REQUESTS, COLUMNS = 24, 8, 10


def int32(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32, device=DEVICE)


@pytest.fixture(params=["reference", "kernel"])
def builder(request) -> StepBuilder:
    return StepBuilder(
        GROUPS, max_tokens=MAX_TOKENS, max_requests=MAX_REQUESTS, device=DEVICE, backend=request.param
    )


class EngineTensors:
    """An engine's persistent inputs: one set of tensors, rewritten for each step and cut to its size."""

    def __init__(self) -> None:
        self.query_start_loc = torch.zeros(MAX_REQUESTS + 1, dtype=torch.int32, device=DEVICE)
        self.seq_lens = torch.zeros(MAX_REQUESTS, dtype=torch.int32, device=DEVICE)
        self.slots = torch.zeros(MAX_TOKENS, dtype=torch.int64, device=DEVICE)
        blocks = torch.arange(1, MAX_REQUESTS * COLUMNS + 1, dtype=torch.int32, device=DEVICE)
        self.block_table = blocks.view(MAX_REQUESTS, COLUMNS)

    def step(self, counts: list[int], seq_lens: list[int], rows: int) -> tuple[DecodeBatch, dict]:
        """A step of ``rows`` rows; what lies past it in the tensors is what earlier steps left there."""
        requests = len(counts)
        self.query_start_loc[: requests + 1] = int32(0, *counts).cumsum(0)
        self.seq_lens[:requests] = int32(*seq_lens)
        self.slots[: sum(counts)] = 100
        self.slots[sum(counts) : rows] = -1
        batch = DecodeBatch(self.query_start_loc[: requests + 1], self.seq_lens[:requests], rows)
        table, slots = self.block_table[:requests], self.slots[:rows]
        return batch, {
            group.name: GroupInputs(table, None if group.make_slots else slots) for group in GROUPS
        }


def build_and_check(builder: StepBuilder, batch: DecodeBatch, inputs: dict, *, poisoned: bool) -> None:
    if poisoned:
        poison(builder)
    else:  # only the rows from T on, which a build must leave alone and the check looks at
        for group in GROUPS:
            builder.buffers(group.name).indices[batch.num_tokens :] = POISON
    check_step(builder, builder.build(batch, inputs), batch, inputs, POISON)


# (rows of each request, tokens of each, rows with padding)
LARGE = ([3, 8, 1, 5, 7], [30, 8, 40, 21, 33], 24)
SMALL = ([2], [19], 2)
GRAPH_PADDED = ([1, 2, 0, 0, 0, 0], [9, 17, 0, 0, 0, 0], 12)
DUMMY = ([0, 0, 0], [0, 0, 0], 8)
EMPTY = ([], [], 0)


@pytest.mark.parametrize("poisoned", [True, False])
def test_large_small_padded_and_empty_steps_follow_each_other(builder, poisoned):
    tensors = EngineTensors()
    for step in (LARGE, SMALL, EMPTY, LARGE, GRAPH_PADDED, LARGE, DUMMY, EMPTY, GRAPH_PADDED):
        build_and_check(builder, *tensors.step(*step), poisoned=poisoned)


@pytest.mark.parametrize("poisoned", [True, False])
def test_several_draft_steps_in_a_row(builder, poisoned):
    # Two requests, three steps of one row each after a verification of four, and the next verification.
    tensors = EngineTensors()
    seq_lens = [13, 30]
    for rows_each in (4, 1, 1, 1, 4):
        seq_lens = [length + rows_each for length in seq_lens]
        step = tensors.step([rows_each] * 2, [min(length, 38) for length in seq_lens], 2 * rows_each)
        build_and_check(builder, *step, poisoned=poisoned)


def test_boundaries_decided_on_the_device_are_the_ones_that_count(builder):
    # The host keeps bounds of what a device decided: the same tensors, rows and shapes, other boundaries.
    tensors = EngineTensors()
    batch, inputs = tensors.step([4, 4], [20, 30], 8)
    for boundaries in ((0, 4, 8), (0, 1, 5), (0, 3, 3), (0, 0, 0)):
        batch.query_start_loc.copy_(int32(*boundaries))
        build_and_check(builder, batch, inputs, poisoned=True)


def test_a_request_that_leaves_and_one_that_takes_its_row_do_not_mix(builder):
    tensors = EngineTensors()
    build_and_check(builder, *tensors.step([2, 2], [37, 12], 4), poisoned=False)
    tensors.block_table[0] = -1
    tensors.block_table[0, 0] = 77
    build_and_check(builder, *tensors.step([2, 2], [2, 14], 4), poisoned=False)
