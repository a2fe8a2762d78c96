"""A page that shows a typical step of each trace: what the host calls, and what runs on the device."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from onelaunch import __version__
from onelaunch.proof.extras import require
from onelaunch.proof.profile.count import StepCounts, device_names
from onelaunch.proof.profile.kinds import Call, Gpu
from onelaunch.proof.profile.link import NONE

_TEMPLATE = "timeline.html.j2"
_CALLS = {Call.LAUNCH: "launch", Call.GRAPH_LAUNCH: "graph", Call.OTHER: "call"}
_EVENTS = {Gpu.KERNEL: "launch", Gpu.MEMSET: "memory", Gpu.DEVICE_COPY: "memory", Gpu.HOST_COPY: "copy"}


@dataclass(frozen=True)
class Bar:
    """An event: microseconds since the step's first."""

    at: float
    duration: float
    kind: str
    name: str


@dataclass(frozen=True)
class Lane:
    """A thread of the host or a stream of the device."""

    label: str
    bars: list[Bar]


@dataclass(frozen=True)
class Timeline:
    """A step of a trace."""

    title: str
    subtitle: str
    span: float
    """Microseconds, from the first event's start to the last one's end."""
    lanes: list[Lane]


def typical_step(counts: StepCounts) -> Timeline:
    """The step with the usual number of launches whose device time is nearest the median."""
    trace, links, step = counts.trace, counts.links, counts.typical
    calls, gpu = trace.calls, trace.gpu
    events = np.flatnonzero(counts.step_of_event == step)
    linked = links.call[events]
    shown = np.zeros(len(calls.at), bool)
    shown[linked[linked != NONE]] = True
    lanes: dict[str, list[Bar]] = {}
    host = counts.found.host
    if host is not None and len(calls.at):
        (place,) = np.flatnonzero(host.step == step)
        start, end = host.start[place], host.end[place]
        shown |= (calls.at >= start) & (calls.at <= end)
        lanes[counts.found.source] = [Bar(start, end - start, "step", counts.found.names[step])]
    for i in np.flatnonzero(shown & (links.outer == np.arange(len(calls.at)))):
        process, thread = trace.threads[calls.thread[i]]
        label = f"host, process {process}, thread {thread}"
        bar = Bar(calls.at[i], calls.duration[i], _CALLS[Call(calls.kind[i])], trace.names[calls.name[i]])
        lanes.setdefault(label, []).append(bar)
    device = device_names(trace)[counts.device]
    for i in events:
        kind = "node" if links.is_node[i] else _EVENTS[Gpu(gpu.kind[i])]
        bar = Bar(gpu.at[i], gpu.duration[i], kind, trace.names[gpu.name[i]])
        lanes.setdefault(f"device {device}, stream {trace.streams[gpu.stream[i]]}", []).append(bar)
    bars = [bar for lane in lanes.values() for bar in lane]
    first = min((bar.at for bar in bars), default=0.0)
    last = max((bar.at + bar.duration for bar in bars), default=0.0)
    moved = [
        Lane(label, [Bar(bar.at - first, bar.duration, bar.kind, bar.name) for bar in lane])
        for label, lane in lanes.items()
    ]
    launches, graphs = counts.launches.mode, counts.graph_launches.mode
    subtitle = (
        f"{counts.found.names[step]} of {counts.steps:,} steps: {launches} launches, {graphs} of graphs; "
        f"{counts.device_us:,.1f} us on the device (median)"
    )
    return Timeline(trace.path, subtitle, float(last - first), moved)


def page(traces: list[StepCounts]) -> str:
    """An HTML page that needs nothing else, all timelines to one scale.

    Raises:
        ValueError: jinja2 is not installed.
    """
    require("jinja2")
    import jinja2

    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    environment = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    timelines = [typical_step(counts) for counts in traces]
    span = max([timeline.span for timeline in timelines] + [1.0])
    return environment.get_template(_TEMPLATE).render(timelines=timelines, span=span, version=__version__)
