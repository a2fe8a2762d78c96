"""Random batches built by both paths, every output compared: ``onelaunch verify``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count

import torch

from onelaunch.builder import StepBuilder
from onelaunch.checks import check_int
from onelaunch.groups import WindowGroup
from onelaunch.proof.case_file import AnyCase
from onelaunch.proof.cases import Case
from onelaunch.proof.compare import Mismatch, compare_packed, compare_steps, poison
from onelaunch.proof.features import features
from onelaunch.proof.random_cases import random_case, random_sequence, setups
from onelaunch.proof.shrink import shrink
from onelaunch.proof.topk_cases import TopkCase, random_topk_case
from onelaunch.topk import pack_topk

# Of every ten draws: one top-k pack, one sequence of steps on one builder, else a batch.
_DRAWS = 10
_TOPK, _SEQUENCE = 4, 9

# Draws of a seed: the next seed's start after them.
_SEED_DRAWS = 1_000_003

# Cases built before a failing one that are tried with it when it does not fail alone.
_EARLIER = 8


@dataclass(frozen=True, slots=True)
class Failure:
    """A case that the paths build differently.

    Attributes:
        steps: what fails, made small; steps run in order on one pair of builders.
        mismatches: of the first step that differs.
        repeats: whether ``steps`` fail on new builders too; else they are as they were drawn, and
            ``mismatches`` is what was seen once: a race, say.
    """

    steps: list[AnyCase]
    mismatches: list[Mismatch]
    repeats: bool


@dataclass(slots=True)
class VerifyResult:
    """What a run of :func:`verify` saw.

    Attributes:
        cases: cases compared; each step of a sequence is one.
        builds: of window metadata, by each path.
        packs: of top-k entries, by each path.
        covered: feature -> cases that have it, told from the cases themselves.
        failure: the first failure, which ends the run; None when all cases agree.
    """

    cases: int = 0
    builds: int = 0
    packs: int = 0
    covered: Counter[str] = field(default_factory=Counter)
    failure: Failure | None = None


class _Pair:
    """A builder of each path, for cases of one setup."""

    def __init__(
        self, groups: tuple[WindowGroup, ...], max_tokens: int, max_requests: int, device: torch.device
    ) -> None:
        self._builders = [
            StepBuilder(
                groups, max_tokens=max_tokens, max_requests=max_requests, device=device, backend=backend
            )
            for backend in ("reference", "kernel")
        ]

    def mismatches(self, case: Case) -> list[Mismatch]:
        usual, one = self._builders
        batch, inputs = case.batch(usual.device), case.inputs(usual.device)
        for builder in self._builders:
            poison(builder)
        return compare_steps((usual, usual.build(batch, inputs)), (one, one.build(batch, inputs)))


def run_steps(steps: Sequence[AnyCase], device: torch.device) -> list[Mismatch]:
    """What differs in the first of ``steps`` that the paths build differently; empty when all agree.

    Steps with the same groups and capacities share their builders, whose buffers are poisoned before each.
    """
    pairs: dict[object, _Pair] = {}
    for step in steps:
        found = _run(step, pairs, device)
        if found:
            return found
    return []


def run_case(case: AnyCase, device: torch.device) -> list[Mismatch]:
    """What differs between both paths on one case."""
    return run_steps([case], device)


def _run(case: AnyCase, pairs: dict[object, _Pair], device: torch.device) -> list[Mismatch]:
    if isinstance(case, TopkCase):
        arguments = case.arguments(device)
        return compare_packed(
            pack_topk(*arguments, backend="reference"), pack_topk(*arguments, backend="kernel")
        )
    if case.setup not in pairs:
        pairs[case.setup] = _Pair(*case.setup, device)
    return pairs[case.setup].mismatches(case)


def verify(
    cases: int,
    *,
    seed: int = 0,
    device: torch.device,
    progress: Callable[[int], None] | None = None,
) -> VerifyResult:
    """Build random cases by both paths and compare every output; stop at the first that differs, made small.

    Args:
        cases: how many to compare.
        seed: decides all of them, together with the kind of device.
        device: a GPU, or the CPU: small cases then, as the kernel runs in Triton's interpreter.
        progress: called after each case with the number done.

    Raises:
        ValueError: ``cases`` or ``seed`` is out of range.
    """
    check_int("cases", cases, 1, 2**63 - 1)
    check_int("seed", seed, 0, 2**63 - 1)
    result = VerifyResult()
    pairs: dict[object, _Pair] = {}
    large = device.type != "cpu"
    first = seed * _SEED_DRAWS
    for number in count(first):
        steps = _draw(number, large=large)
        for i, case in enumerate(steps):
            if result.cases == cases:
                return result
            try:
                mismatches = _run(case, pairs, device)
            except Exception as error:
                error.add_note(f"while building case {result.cases + 1} of seed {seed}")
                raise
            result.cases += 1
            if isinstance(case, TopkCase):
                result.packs += 1
                result.covered.update(case.features)
            else:
                result.builds += 1
                result.covered.update(features(case))
            if mismatches:
                failing = steps[: i + 1]
                earlier = _earlier(failing[0], range(first, number), large=large)
                result.failure = _failure(failing, earlier, mismatches, device)
                return result
            if progress is not None:
                progress(result.cases)
    raise AssertionError("draws never end")


def _draw(number: int, *, large: bool) -> list[AnyCase]:
    """The steps of one draw, for one pair of builders."""
    all_setups = setups(large=large)
    # Both remainders alone would move in step: some setups would never be drawn for a sequence.
    setup = all_setups[(number + number // _DRAWS) % len(all_setups)]
    if number % _DRAWS == _TOPK:
        return [random_topk_case(number, large=large)]
    if number % _DRAWS == _SEQUENCE:
        return [*random_sequence(number, setup)]
    return [random_case(number, setup)]


def _earlier(case: AnyCase, numbers: range, *, large: bool) -> list[AnyCase]:
    """The last cases drawn before ``case`` for its builders, oldest first."""
    if isinstance(case, TopkCase):
        return []
    before: list[AnyCase] = []
    for number in reversed(numbers):
        steps = _draw(number, large=large)
        if isinstance(steps[0], Case) and steps[0].setup == case.setup:
            before = [*steps, *before]
            if len(before) >= _EARLIER:
                break
    return before[-_EARLIER:]


def _failure(
    steps: list[AnyCase], earlier: list[AnyCase], mismatches: list[Mismatch], device: torch.device
) -> Failure:
    """The failing steps made small, together with ``earlier`` ones only if they fail no other way."""

    def fails(trial: list[AnyCase]) -> bool:
        return bool(run_steps(trial, device))

    for whole in (steps, [*earlier, *steps]):
        if fails(whole):
            small = shrink(whole, fails)
            return Failure(small, run_steps(small, device) or mismatches, repeats=True)
    return Failure(steps, mismatches, repeats=False)
