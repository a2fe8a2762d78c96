"""An arm's check: its outputs against the usual build's, over poisoned buffers."""

from __future__ import annotations

import pytest
import torch

from onelaunch.bench.arms import Arm, Build
from onelaunch.bench.inputs import MAX_TOKENS, step_inputs, window_groups
from onelaunch.builder import StepBuilder

CPU = torch.device("cpu")
ROWS = 9  # a request of 7 rows and one of 2


@pytest.fixture(scope="module")
def build() -> Build:
    """The usual build of one target and one draft group."""
    step = step_inputs(ROWS, CPU, context=1000)
    target, draft = window_groups(ragged=True)
    groups = [target[0], draft[0]]
    builder = StepBuilder(
        groups, max_tokens=MAX_TOKENS, max_requests=step.num_requests, device=CPU, backend="reference"
    )
    return Build(builder, step.batch, {group.name: step.inputs[group.name] for group in groups})


def test_an_arm_that_builds_the_same_has_no_mismatch(build):
    assert Arm("usual", build, 1, builds=(build,)).mismatches() == []


@pytest.mark.parametrize(
    ("group", "output", "row"),
    [
        ("swa.0", "indices", ROWS - 1),
        ("draft.0", "ragged_indices", 0),
        ("draft.0", "ragged_indptr", ROWS),
        ("swa.0", "lengths", MAX_TOKENS - 1),  # the zeroed tail is an output too
    ],
)
def test_one_wrong_entry_is_a_mismatch(build, group, output, row):
    def run() -> None:
        build()
        getattr(build.builder.buffers(group), output)[row] += 1

    found = Arm("onelaunch", run, 1, builds=(build,)).mismatches()
    assert [(one.group, one.output, one.index[0]) for one in found] == [(group, output, row)]


def test_an_arm_that_builds_nothing_does_not_pass_on_what_was_there(build):
    build()
    found = Arm("onelaunch", lambda: None, 1, builds=(build,)).mismatches()
    assert {"token_to_request", "indices", "lengths", "ragged_indptr"} <= {one.output for one in found}


def test_a_write_past_the_batch_is_a_mismatch(build):
    def run() -> None:
        build()
        build.builder.buffers("swa.0").indices[ROWS] = -1

    (found,) = Arm("onelaunch", run, 1, builds=(build,)).mismatches()
    assert found.output == "indices past the batch"
