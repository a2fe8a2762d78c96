"""A planted fault in one path is found, made small, and can be replayed."""

from __future__ import annotations

import pytest

from machine import DEVICE
from onelaunch.builder import StepBuilder
from onelaunch.proof import case_file
from onelaunch.proof.cases import Case
from onelaunch.proof.features import FEATURES, features
from onelaunch.proof.random_cases import random_case, setups
from onelaunch.proof.topk_cases import TOPK_FEATURES, TopkCase
from onelaunch.proof.verify import _draw, run_case, run_steps, verify


@pytest.fixture
def faulty(monkeypatch):
    """Lets the kernel path be the usual build, spoiled by ``fault(builder, step)`` after each build."""

    def plant(fault):
        class Faulty(StepBuilder):
            def __init__(self, *args, backend: str, **options) -> None:
                super().__init__(*args, backend="reference", **options)
                self.spoiled = backend == "kernel"

            def build(self, batch, inputs):
                step = super().build(batch, inputs)
                if self.spoiled:
                    fault(self, step)
                return step

        monkeypatch.setattr("onelaunch.proof.verify.StepBuilder", Faulty)

    return plant


def rows_that_stay(widest: dict):
    """A fault that only a smaller batch after a larger one shows: a tail that is not zeroed again."""

    def fault(builder, step):
        last = widest.get(builder, 0)
        if step.num_tokens < last:
            for name in step:
                builder.buffers(name).lengths[last - 1] = 3
        widest[builder] = step.num_tokens

    return fault


def off_by_one_past_a_block(builder, step):
    """Rows longer than 64 have a wrong last entry."""
    for name, group in step.items():
        for row in (group.lengths > 64).nonzero().flatten().tolist():
            builder.buffers(name).indices[row, 0, 63] += 1


def test_paths_that_agree_are_reported_with_what_was_covered():
    shown: list[int] = []
    result = verify(30, seed=5, device=DEVICE, progress=shown.append)
    assert result.failure is None
    assert (result.cases, shown[-1]) == (30, 30)
    assert result.builds + result.packs == 30
    assert result.packs > 0
    assert set(result.covered) <= {*FEATURES, *TOPK_FEATURES}
    assert result.covered["causal group"] > 0


def test_a_fault_ends_the_run_and_is_made_small(faulty):
    faulty(off_by_one_past_a_block)
    result = verify(1000, device=DEVICE)
    assert result.failure is not None
    assert result.cases < 1000
    (case,) = result.failure.steps
    assert isinstance(case, Case)
    assert len(case.groups) == 1
    assert len(case.requests) == 1
    assert case.requests[0].query_len == 1
    assert result.failure.mismatches[0].output == "indices"
    assert run_steps(result.failure.steps, DEVICE)


def test_a_fault_that_needs_an_earlier_step_keeps_it(faulty):
    faulty(rows_that_stay({}))
    setup = setups(large=False)[0]
    steps = [random_case(i, setup, num_tokens=size) for i, size in enumerate((24, 5))]
    assert run_steps(steps, DEVICE)
    assert not run_case(steps[1], DEVICE)


def test_a_fault_that_needs_a_case_drawn_before_is_kept_with_it(faulty):
    faulty(rows_that_stay({}))
    result = verify(1000, device=DEVICE)
    assert result.failure is not None
    assert result.failure.repeats
    larger, smaller = result.failure.steps
    assert larger.num_tokens > smaller.num_tokens
    assert result.failure.mismatches[0].output == "lengths"
    assert run_steps(result.failure.steps, DEVICE)


def test_a_fault_that_is_seen_once_is_told_from_one_that_repeats(faulty):
    seen = []

    def once(builder, step):
        if step.num_tokens and not seen:
            seen.append(step)
            step.token_to_request[0] = 5

    faulty(once)
    result = verify(50, device=DEVICE)
    assert result.failure is not None
    assert not result.failure.repeats
    assert result.failure.mismatches[0].output == "token_to_request"
    assert run_steps(result.failure.steps, DEVICE) == []


def test_an_error_in_a_build_says_which_case_it_was(faulty):
    def raises(builder, step):
        raise RuntimeError("an illegal memory access")

    faulty(raises)
    with pytest.raises(RuntimeError, match="illegal") as error:
        verify(5, seed=3, device=DEVICE)
    assert error.value.__notes__ == ["while building case 1 of seed 3"]


@pytest.mark.parametrize("wrong", [{"cases": 0}, {"cases": 2.5}, {"seed": -1}])
def test_a_wrong_count_or_seed_is_named(wrong):
    (name,) = wrong
    with pytest.raises(ValueError, match=f"{name} is"):
        verify(**{"cases": 1, "device": DEVICE, **wrong})


def test_a_wrong_pack_is_found(monkeypatch):
    def swapped(*arguments, backend):
        from onelaunch import pack_topk

        packed = pack_topk(*arguments, backend="reference")
        if backend == "kernel" and packed.lengths.numel():
            packed.lengths[0] += 1
        return packed

    monkeypatch.setattr("onelaunch.proof.verify.pack_topk", swapped)
    result = verify(40, device=DEVICE)
    assert result.failure is not None
    (case,) = result.failure.steps
    assert isinstance(case, TopkCase)
    assert len(case.rows) == 1
    assert case_file.from_json(case_file.to_json([case])) == [case]


def test_each_feature_can_be_reached_by_the_large_cases():
    # What a summary shows with a zero for ever is no feature.
    missing = {*FEATURES, *TOPK_FEATURES}
    for number in range(1500):
        for case in _draw(number, large=True):
            missing -= case.features if isinstance(case, TopkCase) else features(case)
        if not missing:
            break
    assert missing == set()


@pytest.mark.parametrize("large", [False, True])
def test_every_setup_is_drawn_for_single_batches_and_for_sequences(large):
    single, sequences = set(), set()
    for number in range(150):
        steps = _draw(number, large=large)
        if isinstance(steps[0], Case):
            (single if len(steps) == 1 else sequences).add(steps[0].setup)
    assert len(single) == len(sequences) == len(setups(large=large))
