"""The usual build against the plain-loop oracle, and the launches it takes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from machine import DEVICE
from onelaunch import StepBuilder, WindowGroup
from onelaunch import pack_topk as packed
from onelaunch.launches import counting
from onelaunch.proof.cases import Case
from onelaunch.proof.compare import POISON, poison
from onelaunch.proof.random_cases import random_case, random_sequence, setups
from onelaunch.proof.topk_cases import random_topk_case
from oracle import check_step, pack_topk


def reference_builder(case: Case) -> StepBuilder:
    groups, max_tokens, max_requests = case.setup
    return StepBuilder(
        groups, max_tokens=max_tokens, max_requests=max_requests, device=DEVICE, backend="reference"
    )


def build_and_check(builder: StepBuilder, case: Case) -> None:
    poison(builder)
    batch, inputs = case.batch(DEVICE), case.inputs(DEVICE)
    check_step(builder, builder.build(batch, inputs), batch, inputs, POISON)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(setups(large=False)))
def test_random_batches_are_built_as_the_definition_says(seed, setup):
    case = random_case(seed, setup)
    build_and_check(reference_builder(case), case)


@pytest.mark.parametrize("setup", range(len(setups(large=False))))
def test_no_step_of_a_sequence_shows_in_a_later_one(setup):
    steps = random_sequence(setup, setups(large=False)[setup])
    builder = reference_builder(steps[0])
    for case in steps:
        build_and_check(builder, case)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32))
def test_random_topk_packs_are_made_as_the_definition_says(seed):
    topk_indices, token_to_request, is_valid, block_table, block_size = random_topk_case(seed).arguments(
        DEVICE
    )
    got = packed(topk_indices, token_to_request, is_valid, block_table, block_size, backend="reference")
    truth = pack_topk(
        topk_indices.tolist(), token_to_request.tolist(), is_valid.tolist(), block_table.tolist(), block_size
    )
    assert got.lengths.tolist() == truth.lengths
    assert got.indptr.tolist() == truth.indptr
    assert got.ragged_indices.tolist()[: truth.indptr[-1]] == truth.ragged


DENSE_STEPS = {"compare": 1, "fill_tail": 1, "window_indices": 1}
RAGGED_STEPS = {**DENSE_STEPS, "row_count": 1, "cumsum": 1, "compact": 1, "copy_indices": 1, "copy_indptr": 1}


@pytest.mark.parametrize(("ragged", "steps"), [(True, RAGGED_STEPS), (False, DENSE_STEPS)])
def test_a_group_takes_its_named_steps_and_the_build_one_more(ragged, steps):
    group = WindowGroup("swa.0", window=8, block_size=4, ragged=ragged)
    case = random_case(1, None, num_tokens=4)
    batch = case.batch(DEVICE)
    inputs = {"swa.0": next(iter(case.inputs(DEVICE).values()))}
    with counting() as launches:
        builder = StepBuilder([group], max_tokens=64, max_requests=8, device=DEVICE, backend="reference")
        builder.build(batch, inputs)
    assert launches == {"token_to_request": 1, **steps}
