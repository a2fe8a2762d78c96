"""A planted fault in one path is found, made small, and can be replayed."""

from __future__ import annotations

import pytest

from machine import DEVICE
from onelaunch.builder import StepBuilder
from onelaunch.proof import case_file
from onelaunch.proof.cases import Case
from onelaunch.proof.features import FEATURES
from onelaunch.proof.random_cases import random_case, setups
from onelaunch.proof.topk_cases import TOPK_FEATURES, TopkCase
from onelaunch.proof.verify import run_case, run_steps, verify


@pytest.fixture
def faulty(monkeypatch):
    """Lets the kernel path be the usual build, spoiled by ``fault(builder, step)`` after each build."""

    def plant(fault) -> None:
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
    widest = {}

    def remembers(builder, step):
        # A tail that is zeroed only as far as the last step reached.
        last = widest.get(id(builder), 0)
        if step.num_tokens < last:
            for name in step:
                builder.buffers(name).lengths[last - 1] = 3
        widest[id(builder)] = step.num_tokens

    faulty(remembers)
    setup = setups(large=False)[0]
    steps = [random_case(i, setup, num_tokens=size) for i, size in enumerate((24, 5))]
    assert run_steps(steps, DEVICE)
    assert not run_case(steps[1], DEVICE)


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
    from onelaunch.proof.features import features
    from onelaunch.proof.verify import _drawn

    missing = {*FEATURES, *TOPK_FEATURES}
    for number, steps in enumerate(_drawn(0, large=True)):
        for case in steps:
            missing -= case.features if isinstance(case, TopkCase) else features(case)
        if not missing or number == 1500:
            break
    assert missing == set()
