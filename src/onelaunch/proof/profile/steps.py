"""The decode steps of a device, and which of them a launch belongs to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onelaunch.proof.profile import graph_steps
from onelaunch.proof.profile.annotations import LOOKED_FOR, Chosen, choose, one_a_step
from onelaunch.proof.profile.kinds import Call, Gpu
from onelaunch.proof.profile.link import NONE, Links
from onelaunch.proof.profile.trace import Floats, Ints, Trace


@dataclass(frozen=True, eq=False)
class Intervals:
    """Disjoint but for shared ends, by start. All arrays ``[intervals]``."""

    start: Floats
    end: Floats
    step: Ints

    def find(self, at: Floats) -> Ints:
        """The step at each time; -1 outside all; where one interval ends as another starts, the later."""
        if not len(self.start):
            return np.full(len(at), NONE, np.int64)
        place = np.searchsorted(self.start, at, "right") - 1
        inside = (place >= 0) & (at <= self.end[place])
        return np.where(inside, self.step[place], NONE)


@dataclass(frozen=True, eq=False)
class Steps:
    """A device's steps."""

    source: str
    """What they were found by."""
    names: list[str]
    host: Intervals | None
    """In host time; None if only the GPU's own annotations are there."""
    gpu: Intervals | None
    """In device time, for GPU events whose runtime call is missing; None: the host's serve."""

    def of_events(self, trace: Trace, links: Links, events: Ints) -> Ints:
        """The step of each of these GPU events; -1 for none."""
        device = (self.gpu or self.host or _EMPTY).find(trace.gpu.at[events])
        if self.host is None:
            return device
        if self.gpu is None:
            device[links.is_early[events]] = NONE
        return np.where(links.call[events] != NONE, self.host.find(links.at[events]), device)

    def of_graphs(self, links: Links, rows: Ints) -> Ints:
        """The step of each of these graph launches; -1 for none."""
        graphs = links.graphs
        device = (self.gpu or self.host or _EMPTY).find(graphs.gpu_at[rows])
        if self.host is None:
            return device
        if self.gpu is None:
            device[graphs.is_early[rows]] = NONE
        return np.where(graphs.call[rows] != NONE, self.host.find(graphs.at[rows]), device)


_EMPTY = Intervals(np.empty(0), np.empty(0), np.empty(0, np.int64))


def find_steps(trace: Trace, links: Links, device: int, graphs: Ints, annotation: str | None) -> Steps:
    """A device's decode steps.

    Args:
        graphs: the rows of ``links.graphs`` that count for this device.
        annotation: a regular expression; None: what looks most like steps, else a graph launch that repeats.

    Raises:
        ValueError: there are none, or the expression is not regular.
    """
    chosen = choose(trace, annotation)
    if chosen is not None:
        return _annotated(trace, links, device, chosen)
    graphs = graphs[~links.graphs.is_early[graphs]]
    if annotation is None and len(graphs) >= 2:
        return _between_graphs(trace, links, device, graphs)
    seen = list(dict.fromkeys(trace.names[i] for i in trace.annotations.name))
    there = "it has no annotations" if not seen else f"its annotations are {', '.join(seen[:8])}"
    there += f" and {len(seen) - 8} more" if len(seen) > 8 else ""
    if annotation is not None:
        raise ValueError(f"{trace.path}: no annotation matches {annotation!r}; {there}")
    raise ValueError(
        f"{trace.path}: no decode steps: looked for annotations ({LOOKED_FOR}) "
        f"and for a graph launch that repeats; {there}; choose one with --annotation REGEX"
    )


def _annotated(trace: Trace, links: Links, device: int, chosen: Chosen) -> Steps:
    table = trace.annotations
    if chosen.on_gpu:
        gpu = _gpu_intervals(trace, _merged_names(trace, device, chosen.rows))
        names = [trace.names[table.name[row]] for row in gpu.step]  # rows, until numbered
        numbered = Intervals(gpu.start, gpu.end, np.arange(len(gpu.start)))
        return Steps(f"annotation {chosen.name}, the GPU's", names, None, numbered)
    call = links.call[(trace.gpu.device == device) & (links.call != NONE)]
    rows = one_a_step(trace, chosen.rows, trace.calls.at[call], trace.calls.thread[call])
    start, end = table.at[rows], table.at[rows] + table.duration[rows]
    host = Intervals(start, end, np.arange(len(rows)))
    names = [trace.names[table.name[row]] for row in rows]
    steps: dict[int, list[int]] = {}
    for step, row in enumerate(rows.tolist()):
        steps.setdefault(int(table.name[row]), []).append(step)
    on_gpu = np.flatnonzero((table.on_gpu == 1) & np.isin(table.name, list(steps)))
    copies = _gpu_intervals(trace, _matched(trace, device, on_gpu, steps, start))
    return Steps(f"annotation {chosen.name}", names, host, copies if len(copies.start) else None)


def _of_device(trace: Trace, device: int, rows: Ints) -> list[int]:
    """The GPU's annotations on this device; all, if they do not say which process and device they are of."""
    process = trace.devices[device][0]
    own = [row for row in rows.tolist() if trace.threads[trace.annotations.thread[row]][0] == process]
    return own or rows.tolist()


def _matched(
    trace: Trace, device: int, rows: Ints, steps: dict[int, list[int]], start: Floats
) -> dict[int, int]:
    """The host's step of each annotation of the GPU: the k-th of a name on a stream is the host's k-th.

    Where their numbers differ, it is the last that started before.
    """
    table = trace.annotations
    streams: dict[tuple[int, int], list[int]] = {}
    for row in _of_device(trace, device, rows):
        streams.setdefault((int(table.thread[row]), int(table.name[row])), []).append(row)
    found: dict[int, int] = {}
    for (_, name), members in streams.items():
        hosts = steps[name]
        if len(members) == len(hosts):
            found.update(zip(members, hosts, strict=True))
        else:
            before = np.searchsorted(start[hosts], table.at[members], "right") - 1
            found.update(zip(members, (hosts[max(i, 0)] for i in before), strict=True))
    return found


def _merged_names(trace: Trace, device: int, rows: Ints) -> dict[int, int]:
    """Copies of a step on several streams: each row, and the first row of its step."""
    table = trace.annotations
    ends: dict[int, tuple[float, int]] = {}
    found: dict[int, int] = {}
    for row in _of_device(trace, device, rows):
        name, at = int(table.name[row]), float(table.at[row])
        end, first = ends.get(name, (-np.inf, row))
        first = first if at < end else row
        ends[name] = (max(end, at + float(table.duration[row])), first)
        found[row] = first
    return found


def _gpu_intervals(trace: Trace, step_of: dict[int, int]) -> Intervals:
    """One interval a step, from its first annotation's start to its last one's end."""
    table = trace.annotations
    spans: dict[int, tuple[float, float]] = {}
    for row, step in step_of.items():
        start, end = float(table.at[row]), float(table.at[row] + table.duration[row])
        old = spans.get(step, (start, end))
        spans[step] = (min(old[0], start), max(old[1], end))
    ordered = sorted(spans, key=lambda step: spans[step])
    return Intervals(
        np.array([spans[step][0] for step in ordered], np.float64),
        np.array([spans[step][1] for step in ordered], np.float64),
        np.array(ordered, np.int64),
    )


def _between_graphs(trace: Trace, links: Links, device: int, graphs: Ints) -> Steps:
    gpu, table = trace.gpu, links.graphs
    eager = np.flatnonzero((gpu.device == device) & ~links.is_node & (gpu.kind != Gpu.HOST_COPY))
    call = links.call[eager]
    duration = np.where(call != NONE, np.append(trace.calls.duration, 0)[call], gpu.duration[eager])
    at = np.concatenate([links.at[eager], table.at[graphs]])
    end = np.concatenate([links.at[eager] + duration, table.end[graphs]])
    order = np.argsort(at, kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    stand = graphs[graph_steps.anchors(table.signature[graphs], table.device_us[graphs])]
    anchor = place[len(eager) + np.searchsorted(graphs, stand)]
    first, last = graph_steps.cut(at[order], end[order], anchor)
    host = Intervals(at[order][first], at[order][last], np.arange(len(first)))
    call_of = table.call[stand[0]]
    what = trace.names[trace.calls.name[call_of]] if call_of != NONE else "graph launch"
    each = "the repeating" if len(stand) < len(graphs) else "each"
    return Steps(f"{each} {what}", [f"step {i}" for i in range(len(first))], host, None)


def host_launches(trace: Trace, links: Links) -> Ints:
    """The calls that launch a kernel by themselves, each once."""
    is_outer = links.outer == np.arange(len(links.outer))
    return np.flatnonzero((trace.calls.kind == Call.LAUNCH) & is_outer)
