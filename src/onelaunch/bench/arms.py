"""The arms of the benchmark: ways to build one step, on the same inputs, each with buffers of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from onelaunch.batch import DecodeBatch, GroupInputs
from onelaunch.bench.inputs import MAX_TOKENS, StepInputs, window_groups
from onelaunch.bench.kernels import empty_kernel
from onelaunch.builder import StepBuilder
from onelaunch.groups import WindowGroup
from onelaunch.launches import counting
from onelaunch.proof.compare import Mismatch, compare_steps, poison
from onelaunch.proof.graphs import record

ARMS = (
    "usual",
    "usual-graph",
    "usual-dense",
    "usual-dense-graph",
    "per-group",
    "onelaunch",
    "onelaunch-dense",
)


@dataclass(frozen=True, slots=True)
class Build:
    """One builder, and what it builds."""

    builder: StepBuilder
    batch: DecodeBatch
    inputs: dict[str, GroupInputs]

    def __call__(self) -> None:
        self.builder.build(self.batch, self.inputs)


@dataclass(frozen=True, slots=True)
class Arm:
    """A way to build a step.

    Attributes:
        name: one of :data:`ARMS`, or of the floors.
        run: builds the step once; of a recorded arm, replays its graph.
        launches: kernels of a step. Of a recorded arm, those in its graph.
        recorded: whether ``run`` replays a graph, and so can't be captured again.
        builds: what it builds, for the check.
    """

    name: str
    run: Callable[[], None]
    launches: int
    recorded: bool = False
    builds: tuple[Build, ...] = ()

    def mismatches(self) -> list[Mismatch]:
        """What differs between the outputs of a run and the usual build's, over poisoned buffers."""
        self.poison()
        self.run()
        return self.differences()

    def poison(self) -> None:
        """Overwrite all outputs, so that only a run makes them right again."""
        for build in self.builds:
            poison(build.builder)

    def differences(self) -> list[Mismatch]:
        """What differs between the outputs as they are and the usual build's; poison them before the run."""
        found: list[Mismatch] = []
        for build in self.builds:
            builder = build.builder
            usual = _builder(builder.groups, build.batch, "reference", builder.device)
            poison(usual)
            got = builder.views(build.batch.num_tokens)
            found += compare_steps((usual, usual.build(build.batch, build.inputs)), (builder, got))
        return found


def make_arms(step: StepInputs, device: torch.device) -> list[Arm]:
    """All arms, warmed up."""
    arms = []
    for name in ARMS:
        backend = "reference" if name.startswith("usual") else "kernel"
        sides: Sequence[Sequence[WindowGroup]] = window_groups(ragged="dense" not in name)
        if name == "per-group":
            # The one-launch build started for each group alone. Each writes the token map too.
            sides = [[group] for groups in sides for group in groups]
        builds = tuple(
            Build(
                _builder(groups, step.batch, backend, device),
                step.batch,
                {group.name: step.inputs[group.name] for group in groups},
            )
            for groups in sides
        )
        arms.append(_arm(name, builds))
    return arms


def _builder(
    groups: Sequence[WindowGroup], batch: DecodeBatch, backend: str, device: torch.device
) -> StepBuilder:
    builder = StepBuilder(
        groups,
        max_tokens=MAX_TOKENS,
        max_requests=batch.seq_lens.shape[0],
        device=device,
        backend=backend,
    )
    builder.warmup()
    return builder


def _arm(name: str, builds: tuple[Build, ...]) -> Arm:
    def run() -> None:
        for build in builds:
            build()

    with counting() as launches:
        run()
    recorded = name.endswith("-graph")
    return Arm(name, record(run, 1).replay if recorded else run, launches.total(), recorded, builds)


def empty_arm(launches: int) -> Arm:
    """Empty kernels, as many as the step has builds: what a launch costs by itself."""

    def run() -> None:
        for _ in range(launches):
            empty_kernel[(1,)]()

    return Arm("empty", run, launches)


def fill_arm(sizes: Sequence[int], device: torch.device) -> Arm:
    """A plain fill of as many bytes as each build must move: what any kernel takes to write so much."""
    buffers = [torch.empty(size // 4, dtype=torch.int32, device=device) for size in sizes]

    def run() -> None:
        for buffer in buffers:
            buffer.fill_(-1)

    return Arm("fill", run, len(sizes))
