"""Launches of a decode step, by kernel: counted for every step of a device."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from onelaunch.proof.profile.kinds import Gpu
from onelaunch.proof.profile.link import NONE, Links, link
from onelaunch.proof.profile.steps import Steps, find_steps, host_launches
from onelaunch.proof.profile.trace import Floats, Ints, Trace


@dataclass(frozen=True)
class Spread:
    """A count over steps."""

    mode: int
    """The commonest value; of several, the largest."""
    share: float
    """Of steps with this value."""
    others: dict[int, int]
    """Every other value, and its number of steps."""


@dataclass(frozen=True)
class KernelCount:
    """A kernel, by name."""

    count: Spread
    device_us: float
    """Median over steps of its time on the device, all launches of a step together."""


@dataclass(frozen=True, eq=False)
class StepCounts:
    """What a device's decode steps launch. docs/launches.md has the rules."""

    trace: Trace = field(repr=False)
    links: Links = field(repr=False)
    found: Steps = field(repr=False)
    device: int
    step_of_event: Ints = field(repr=False)
    """``[GPU events]``: -1 for those of other devices or in no step."""
    typical: int
    """The step with the usual number of launches whose device time is nearest the median."""
    launches: Spread
    host_launches: Spread
    graph_launches: Spread
    graph_nodes: Spread
    kernel_events: Spread
    device_us: float
    """Median over steps, of launches and graph nodes."""
    kernels: dict[str, KernelCount]
    """Launched by themselves, copies on the device and memsets among them."""
    graph_kernels: dict[str, KernelCount]
    """Nodes of graphs."""
    copies: dict[str, KernelCount]
    """From and to the host: no launches."""
    missing: list[str]
    """What the trace lacks, and what was done about it."""

    @property
    def steps(self) -> int:
        return len(self.found.names)


def device_names(trace: Trace) -> dict[int, str]:
    """The devices that have events: their number, with the process where that alone is not enough."""
    used = {int(i): trace.devices[i] for i in np.unique(trace.gpu.device)}
    numbers = [number for _, number in used.values()]
    return {
        i: number if numbers.count(number) == 1 else f"{process}/{number}"
        for i, (process, number) in used.items()
    }


def count_launches(trace: Trace, annotation: str | None = None, device: str | None = None) -> StepCounts:
    """Count a device's launches in each decode step.

    Args:
        annotation: a regular expression for the annotation of a step; None: found.
        device: a name of `device_names`; None: the device with the most GPU events.

    Raises:
        ValueError: no GPU events, no steps, no such device, or a wrong expression.
    """
    if not len(trace.gpu.at):
        raise ValueError(
            f"{trace.path}: no GPU events: profile where the GPU is, with "
            "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA] (CUDA is ROCm's name too)"
        )
    names = device_names(trace)
    busiest = int(np.argmax(np.bincount(trace.gpu.device)))
    if device is not None and device not in names.values():
        raise ValueError(f"device is {device!r}: {trace.path} has {', '.join(sorted(names.values()))}")
    chosen = busiest if device is None else next(i for i, name in names.items() if name == device)
    links = link(trace)
    # A graph launch without nodes says nothing of its device.
    of_graph = np.where(links.graphs.device == NONE, busiest, links.graphs.device)
    graphs = np.flatnonzero(of_graph == chosen)
    found = find_steps(trace, links, chosen, graphs, annotation)
    return _count(trace, links, found, chosen, graphs, chosen == busiest)


def _count(
    trace: Trace, links: Links, found: Steps, device: int, graphs: Ints, with_unknown: bool
) -> StepCounts:
    gpu, steps = trace.gpu, len(found.names)
    step_of_event = np.full(len(gpu.at), NONE, np.int64)
    events = np.flatnonzero(gpu.device == device)
    step_of_event[events] = found.of_events(trace, links, events)
    inside = step_of_event != NONE
    host_copy = gpu.kind == Gpu.HOST_COPY
    eager = np.flatnonzero(inside & ~links.is_node & ~host_copy)
    nodes = np.flatnonzero(inside & links.is_node)
    copies = np.flatnonzero(inside & ~links.is_node & host_copy)
    kernels = np.flatnonzero(inside & (gpu.kind == Gpu.KERNEL))
    counted = np.concatenate([eager, nodes])
    device_us = np.bincount(step_of_event[counted], gpu.duration[counted], steps)
    graph_launches = _per_step(found.of_graphs(links, graphs), steps)
    launches = _per_step(step_of_event[eager], steps) + graph_launches
    spread = _spread(launches)
    usual = np.flatnonzero(launches == spread.mode)
    typical = usual[np.argmin(np.abs(device_us[usual] - np.median(device_us[usual])))]
    host, without_event = _host_launches(trace, links, found, device, with_unknown)

    def by_name(chosen: Ints) -> dict[str, KernelCount]:
        return _by_name(trace, chosen, step_of_event[chosen], gpu.duration[chosen], steps)

    return StepCounts(
        trace,
        links,
        found,
        device,
        step_of_event,
        int(typical),
        spread,
        _spread(_per_step(host, steps)),
        _spread(graph_launches),
        _spread(_per_step(step_of_event[nodes], steps)),
        _spread(_per_step(step_of_event[kernels], steps)),
        _us(np.median(device_us)),
        by_name(eager),
        by_name(nodes),
        by_name(copies),
        _missing(trace, links, found, events, graphs, without_event),
    )


def _host_launches(
    trace: Trace, links: Links, found: Steps, device: int, with_unknown: bool
) -> tuple[Ints, int]:
    """The step of each call that launches on this device, or -1; how many in steps have no GPU event."""
    device_of = np.full(len(trace.calls.at), NONE, np.int64)
    gpu_at = np.full(len(trace.calls.at), np.nan)
    tied = np.flatnonzero(links.call != NONE)
    device_of[links.call[tied]] = trace.gpu.device[tied]
    gpu_at[links.call[tied]] = trace.gpu.at[tied]
    calls = host_launches(trace, links)
    own = (device_of[calls] == device) | (with_unknown & (device_of[calls] == NONE))
    calls = calls[own]
    if found.host is not None:
        steps = found.host.find(trace.calls.at[calls])
    else:
        steps = (
            found.gpu.find(gpu_at[calls]) if found.gpu is not None else np.full(len(calls), NONE, np.int64)
        )
    return steps, int(((steps != NONE) & (device_of[calls] == NONE)).sum())


def _per_step(step: Ints, steps: int) -> Ints:
    return np.bincount(step[step != NONE], minlength=steps)


def _spread(counts: Ints) -> Spread:
    times = Counter(counts.tolist())
    mode = min(times, key=lambda value: (-times[value], -value))
    others = {value: times[value] for value in sorted(times) if value != mode}
    return Spread(mode, times[mode] / len(counts), others)


def _by_name(trace: Trace, events: Ints, step: Ints, duration: Floats, steps: int) -> dict[str, KernelCount]:
    """Kernels by name, the most launched first."""
    key, inverse, counts = np.unique(
        trace.gpu.name[events] * steps + step, return_inverse=True, return_counts=True
    )
    time = np.bincount(inverse, duration, len(key))
    found: dict[str, KernelCount] = {}
    names, edges = np.unique(key // steps, return_index=True)
    for name, start, stop in zip(names.tolist(), edges, [*edges[1:], len(key)], strict=False):
        rows = slice(start, stop)
        per_step, times = np.zeros(steps, np.int64), np.zeros(steps)
        per_step[key[rows] % steps], times[key[rows] % steps] = counts[rows], time[rows]
        found[trace.names[name]] = KernelCount(_spread(per_step), _us(np.median(times)))
    return dict(sorted(found.items(), key=lambda item: (-item[1].count.mode, -item[1].device_us, item[0])))


def _us(value: float | np.floating) -> float:
    return round(float(value), 3)


def _missing(
    trace: Trace, links: Links, found: Steps, events: Ints, graphs: Ints, without_event: int
) -> list[str]:
    """Sentences about what the trace lacks."""
    notes = []
    orphans = links.call[events] == NONE
    early = orphans & links.is_early[events] & (found.gpu is None)
    orphan, before = int((orphans & ~early).sum()), int(early.sum())
    where = "the GPU's annotations" if found.gpu is not None else "its time on the device"
    if not len(trace.calls.at):
        notes.append(
            "no runtime events: host launches are not known, graph launches only by their nodes' own word, "
            f"and an event's step is by {where}; profile with ProfilerActivity.CPU too"
        )
    elif orphan:
        notes.append(
            f"GPU events without a runtime event: {orphan:,} of {len(events):,}, their step by {where}"
        )
    if before:
        notes.append(f"GPU events launched before the trace began: {before:,}, not counted")
    if found.host is None and len(trace.calls.at):
        notes.append("the host has no such annotation: steps are in device time, by the GPU's annotations")
    if without_event:
        notes.append(f"host launches in steps without a GPU event: {without_event:,}, not counted")
    empty = int(np.isnan(links.graphs.gpu_at[graphs]).sum())
    if empty:
        notes.append(f"graph launches without nodes in the trace: {empty:,}")
    return notes
