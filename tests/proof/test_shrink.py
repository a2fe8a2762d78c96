"""A failing case made small: it still fails, nothing is left that could go, each trial is a valid case."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from onelaunch.proof import case_file
from onelaunch.proof.cases import Case, GroupCase
from onelaunch.proof.random_cases import random_case, random_sequence, setups
from onelaunch.proof.shrink import shrink
from onelaunch.proof.topk_cases import TopkCase, random_topk_case

LARGE = setups(large=True)


def windows(case: Case):
    """(group entry, request number, request, its rows) of all requests with rows."""
    for entry in case.groups:
        for number, (request, rows) in enumerate(zip(case.requests, case.rows(), strict=True)):
            if rows:
                yield entry, number, request, rows


def has_negative_block(entry: GroupCase, number: int, request) -> bool:
    start, end = entry.span(request)
    size = entry.group.block_size
    blocks = [entry.block(number, logical) for logical in range(start // size, -(-end // size))]
    return any(block is not None and block < 0 for block in blocks)


FAULTS = {
    "a hole in a draft block": lambda case: any(
        not entry.group.causal and has_negative_block(entry, number, request)
        for entry, number, request, _ in windows(case)
    ),
    "a replay start": lambda case: any(
        entry.group.causal and request.replay_start for entry, _, request, _ in windows(case)
    ),
    "an invalid row that is not the request's first": lambda case: any(
        set(entry.invalid_rows) & set(rows[1:]) for entry, _, _, rows in windows(case)
    ),
    "a stale padded row": lambda case: any(entry.stale_rows for entry in case.groups),
    "over 16 rows": lambda case: case.num_tokens > 16,
    "a padding request": lambda case: any(not request.query_len for request in case.requests),
    "a stride": lambda case: any(entry.stride_padding for entry in case.groups),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_large_case_becomes_a_small_one_that_fails_alike(fault):
    fails = FAULTS[fault]
    mixed = LARGE[2]  # four target groups and three draft groups
    case = next(case for case in (random_case(seed, mixed) for seed in range(500)) if fails(case))
    (small,) = shrink([case], lambda steps: fails(steps[0]), max_trials=3000)
    assert isinstance(small, Case)
    assert fails(small)
    assert len(small.groups) == 1
    assert len(small.requests) <= {"over 16 rows": 3, "a stale padded row": 0, "a stride": 0}.get(fault, 1)
    assert small.num_tokens <= (17 if fault == "over 16 rows" else 2)
    assert case_file.from_json(case_file.to_json([small])) == [small]


def test_steps_that_do_not_matter_go_and_groups_go_from_all_steps_at_once():
    steps = random_sequence(0, LARGE[2])
    name = steps[0].groups[5].group.name

    def fails(trial) -> bool:
        """A smaller step right after a larger one, with one of the groups."""
        sizes = [step.num_tokens for step in trial if any(e.group.name == name for e in step.groups)]
        return any(larger > smaller for larger, smaller in pairwise(sizes))

    assert fails(steps)
    small = shrink(steps, fails, max_trials=3000)
    assert [len(step.groups) for step in small] == [1, 1]
    assert [step.num_tokens for step in small] == [1, 0]
    assert small[0].setup == small[1].setup  # they share their builders


def test_a_pack_becomes_small_too():
    def fails(steps) -> bool:
        (case,) = steps
        return any(len(row) > 2 and row[1] < 0 for row in case.rows)

    case = next(case for case in (random_topk_case(seed, large=True) for seed in range(500)) if fails([case]))
    (small,) = shrink([case], fails, max_trials=3000)
    assert isinstance(small, TopkCase)
    assert (len(small.rows), len(small.rows[0]), small.topk) == (1, 3, 3)
    assert len(small.block_table[0]) == 1


def test_what_cannot_be_made_smaller_is_given_back_as_it_was():
    case = random_case(3, LARGE[2])
    assert shrink([case], lambda steps: steps == [case]) == [case]


@pytest.mark.parametrize("seed", range(12))
def test_every_trial_is_another_valid_case(seed):
    # Kept trials are drawn by a coin, so that odd combinations are simplified further.
    setup = setups(large=False)[seed % len(setups(large=False))]
    for steps in ([random_case(seed, setup)], random_sequence(seed, setup), [random_topk_case(seed)]):
        trials = []

        def keep(trial, trials=trials) -> bool:
            trials.append(trial)
            assert trial
            return len(trials) % 3 == 0

        shrink(steps, keep, max_trials=300)
        for trial in trials:
            for step in trial:
                replace(step)  # runs the case's own checks


def test_trials_are_bounded():
    trials = []
    shrink([random_case(3, LARGE[2])], lambda steps: bool(trials.append(steps)), max_trials=7)
    assert len(trials) == 7
