"""Device and host times of arms, interleaved: arms timed one after another drift apart two or three times."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from onelaunch.bench.arms import Arm
from onelaunch.bench.kernels import copy_kernel, read_kernel
from onelaunch.proof.graphs import elapsed_us, record

_STEPS_PER_GRAPH = 20  # enough that starting the graph does not count
_COLD_STEPS_PER_GRAPH = 5
# Launches enqueued behind a busy device: a queue holds about a thousand, and a full one stops the host.
_MOST_LAUNCHES = 400
_BUSY_CYCLES = 40_000_000  # some 20 ms


@dataclass(frozen=True, slots=True)
class Spread:
    """Microseconds of one step."""

    median: float
    p10: float
    p90: float

    @staticmethod
    def of(times: Sequence[float]) -> Spread:
        deciles = statistics.quantiles(times, n=10, method="inclusive")
        return Spread(statistics.median(times), deciles[0], deciles[-1])


def device_times(arms: Sequence[Arm], rounds: int) -> dict[str, Spread]:
    """Device time of a step in a graph of many, the inputs in L2.

    Every arm's outputs are poisoned once its graph is recorded: what they hold afterwards, replays wrote.
    """
    runs: dict[str, Callable[[], None]] = {}
    for arm in arms:
        runs[arm.name] = _repeated(arm, _STEPS_PER_GRAPH)
    for arm in arms:
        arm.poison()
    times: dict[str, list[float]] = {name: [] for name in runs}
    for i in range(rounds + 1):
        for name, run in runs.items():
            elapsed = elapsed_us(run)
            if i:  # the first round uploads the graphs
                times[name].append(elapsed / _STEPS_PER_GRAPH)
    return {name: Spread.of(some) for name, some in times.items()}


def _repeated(arm: Arm, times: int) -> Callable[[], None]:
    if not arm.recorded:
        return record(arm.run, times).replay

    def run() -> None:  # a graph can't be captured in another
        for _ in range(times):
            arm.run()

    return run


class _Flush:
    """Reads more than L2 holds, as a step does: what was in L2 is gone, and nothing is left to write back."""

    _BLOCK = 4096

    def __init__(self, device: torch.device) -> None:
        size = 2 * torch.cuda.get_device_properties(device).L2_cache_size // 4
        self._blocks = size // self._BLOCK
        self._source = torch.ones(self._blocks * self._BLOCK, dtype=torch.int32, device=device)
        self._result = torch.empty(self._blocks, dtype=torch.int32, device=device)

    def __call__(self) -> None:
        read_kernel[(self._blocks,)](self._source, self._result, BLOCK=self._BLOCK)


def cold_device_times(arms: Sequence[Arm], rounds: int, device: torch.device) -> dict[str, Spread]:
    """Device time of a step whose inputs are not in L2: a graph of flushes and steps less one of flushes.

    Events around each step would also time the events. Recorded arms can't be in a graph, so they have none.
    """
    flush = _Flush(device)

    def flushed(arm: Arm) -> Callable[[], None]:
        def run() -> None:
            flush()
            arm.run()

        return record(run, _COLD_STEPS_PER_GRAPH).replay

    alone = record(flush, _COLD_STEPS_PER_GRAPH).replay
    runs = {arm.name: flushed(arm) for arm in arms if not arm.recorded}
    times: dict[str, list[float]] = {name: [] for name in runs}
    for i in range(rounds + 1):
        for name, run in runs.items():
            difference = elapsed_us(run) - elapsed_us(alone)
            if i:
                times[name].append(difference / _COLD_STEPS_PER_GRAPH)
    return {name: Spread.of(some) for name, some in times.items()}


def host_times(arms: Sequence[Arm], rounds: int) -> dict[str, Spread]:
    """Host time of an eager step, or of a recorded one's replay, while the device is busy: its enqueueing."""
    times: dict[str, list[float]] = {arm.name: [] for arm in arms}
    for i in range(rounds + 1):
        for arm in arms:
            steps = max(1, min(20, _MOST_LAUNCHES // arm.launches))
            torch.cuda._sleep(_BUSY_CYCLES)  # type: ignore[no-untyped-call]
            start = time.perf_counter_ns()
            for _ in range(steps):
                arm.run()
            elapsed = time.perf_counter_ns() - start
            torch.cuda.synchronize()
            if i:
                times[arm.name].append(elapsed / 1000 / steps)
    return {name: Spread.of(some) for name, some in times.items()}


def copy_bandwidth(device: torch.device, rounds: int = 20) -> Mapping[str, float]:
    """Bytes read and written in a second by copies of 1 GiB: PyTorch's, and a plain kernel's."""
    size, block = 2**28, 4096
    source = torch.ones(size, dtype=torch.int32, device=device)
    target = torch.empty_like(source)

    def torch_copy() -> None:
        target.copy_(source)

    def plain_copy() -> None:
        copy_kernel[(size // block,)](source, target, BLOCK=block, num_warps=8)

    rates = {}
    for name, copy in {"torch copy_": torch_copy, "Triton copy": plain_copy}.items():
        elapsed = [elapsed_us(copy) for _ in range(rounds)]
        rates[name] = 2 * 4 * size / (statistics.median(elapsed) * 1e-6)
    return rates
