"""Which runtime call launched each GPU event: by correlation id, as the profiler ties them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onelaunch.proof.profile.kinds import Call
from onelaunch.proof.profile.trace import NO_CORRELATION, Floats, Ints, Trace

NONE = -1


@dataclass(frozen=True, eq=False)
class GraphLaunches:
    """By time. All arrays ``[graph launches]``."""

    at: Floats
    """Host time of the call; of one that is not in the trace, device time of its first node."""
    end: Floats
    gpu_at: Floats
    """Device time of its first node; NaN if the trace has no nodes of it."""
    call: Ints
    """-1: known from its nodes alone."""
    device: Ints
    """-1: the trace has no nodes of it."""
    signature: Ints
    """The same for launches of the same kernels."""
    device_us: Floats
    is_early: NDArray[np.bool_]
    """Launched before the trace began."""


@dataclass(frozen=True, eq=False)
class Links:
    """GPU events and what launched them; arrays are ``[events]`` unless said otherwise."""

    call: Ints
    """-1: the trace has no call of this correlation id."""
    is_node: NDArray[np.bool_]
    """Of a graph: by its call, or by the event's own word where the call is missing."""
    at: Floats
    """Host time of the launch; device time where the call is missing."""
    outer: Ints
    """``[calls]``, the call that a call was made in for the same launch, or itself."""
    is_early: NDArray[np.bool_]
    """Launched before the trace began: ids grow, and this one is below all that are in the trace."""
    graphs: GraphLaunches


def link(trace: Trace) -> Links:
    """Tie GPU events to calls."""
    calls, gpu = trace.calls, trace.gpu
    outer = _outer_calls(trace)
    call = _latest_call(trace, calls.kind != Call.OTHER)
    others = _latest_call(trace, calls.kind == Call.OTHER)
    call = np.where(call == NONE, others, call)
    found = call != NONE
    call[found] = outer[call[found]]
    is_node = gpu.graph_node == 1
    is_node[found] = calls.kind[call[found]] == Call.GRAPH_LAUNCH
    at = gpu.at.copy()
    at[found] = calls.at[call[found]]
    ids = calls.correlation[calls.correlation > 0]
    is_early = ~found & (gpu.correlation > 0) & (gpu.correlation < ids.min(initial=2**62))
    is_early &= len(ids) > 0
    graphs = _graph_launches(trace, call, is_node, outer, is_early)
    return Links(call, is_node, at, outer, is_early, graphs)


def _outer_calls(trace: Trace) -> Ints:
    """A runtime call may be recorded with the driver's call in it: one launch, one correlation id."""
    calls = trace.calls
    process = {name: i for i, name in enumerate({thread[0] for thread in trace.threads})}
    of_thread = np.array([process[thread[0]] for thread in trace.threads], np.int64)
    of_call = of_thread[calls.thread] if len(of_thread) else calls.thread
    order = np.lexsort((calls.at, calls.kind, of_call, calls.correlation))
    inside = np.zeros(len(order), bool)
    first, second = order[:-1], order[1:]
    inside[1:] = (
        (calls.correlation[first] == calls.correlation[second])
        & (calls.correlation[second] != NO_CORRELATION)
        & (of_call[first] == of_call[second])
        & (calls.kind[first] == calls.kind[second])
        & (calls.at[second] < calls.at[first] + calls.duration[first])
    )
    places = np.maximum.accumulate(np.where(inside, 0, np.arange(len(order))))
    outer = np.empty(len(order), np.int64)
    outer[order] = order[places]
    return outer


def _latest_call(trace: Trace, wanted: NDArray[np.bool_]) -> Ints:
    """Of the wanted calls with an event's correlation id, the last before it; -1 if there is none.

    An id comes more than once when traces of several processes were joined. Clocks of host and device may
    differ by some microseconds: if all calls seem to come after the event, it is the first of them.
    """
    calls, gpu = trace.calls, trace.gpu
    chosen = np.flatnonzero(wanted & (calls.correlation != NO_CORRELATION))
    found = np.full(len(gpu.at), NONE, np.int64)
    if not len(chosen):
        return found
    ids = np.concatenate([calls.correlation[chosen], gpu.correlation])
    is_event = np.arange(len(ids)) >= len(chosen)
    order = np.lexsort((is_event, np.concatenate([calls.at[chosen], gpu.at]), ids))
    last = np.maximum.accumulate(np.where(is_event[order], NONE, np.arange(len(order))))
    events = np.flatnonzero(is_event[order])
    candidate = order[last[events]]  # where last is -1: some event, refused below
    of_event = order[events] - len(chosen)
    good = (last[events] >= 0) & (ids[candidate] == gpu.correlation[of_event])
    found[of_event[good]] = chosen[candidate[good]]
    by_id = np.lexsort((calls.at[chosen], calls.correlation[chosen]))
    sorted_ids = calls.correlation[chosen][by_id]
    late = np.flatnonzero((found == NONE) & (gpu.correlation != NO_CORRELATION))
    place = np.searchsorted(sorted_ids, gpu.correlation[late])
    inside = place < len(sorted_ids)
    same = np.zeros(len(late), bool)
    same[inside] = sorted_ids[place[inside]] == gpu.correlation[late[inside]]
    found[late[same]] = chosen[by_id[place[same]]]
    return found


def _graph_launches(
    trace: Trace, call: Ints, is_node: NDArray[np.bool_], outer: Ints, event_is_early: NDArray[np.bool_]
) -> GraphLaunches:
    calls, gpu = trace.calls, trace.gpu
    is_outer = outer == np.arange(len(outer))
    launched = np.flatnonzero((calls.kind == Call.GRAPH_LAUNCH) & is_outer)
    nodes = np.flatnonzero(is_node)
    # Nodes without a call: those of one launch share a correlation id.
    keys = np.where(call[nodes] != NONE, call[nodes], NONE - 1 - gpu.correlation[nodes])
    orphans = np.unique(keys[call[nodes] == NONE])
    group_of = {key: i for i, key in enumerate([*launched.tolist(), *orphans.tolist()])}
    groups = np.array([group_of[key] for key in keys.tolist()], np.int64)
    count, orphan = len(group_of), len(launched)
    gpu_at, device_us = np.full(count, np.nan), np.bincount(groups, gpu.duration[nodes], count)
    device, signature = np.full(count, NONE, np.int64), np.zeros(count, np.int64)
    is_early = np.zeros(count, bool)
    order = np.lexsort((gpu.name[nodes], groups))
    edges = np.searchsorted(groups[order], np.arange(count + 1))
    for group in range(count):  # names sorted: streams of a graph may swap between launches
        members = nodes[order[edges[group] : edges[group + 1]]]
        if len(members):
            gpu_at[group], device[group] = gpu.at[members].min(), gpu.device[members[0]]
            signature[group] = hash(gpu.name[members].tobytes())
            is_early[group] = event_is_early[members[0]]
    at, end = gpu_at.copy(), gpu_at.copy()
    at[:orphan], end[:orphan] = calls.at[launched], calls.at[launched] + calls.duration[launched]
    of_call = np.concatenate([launched, np.full(count - orphan, NONE, np.int64)])
    columns = (at, end, gpu_at, of_call, device, signature, device_us, is_early)
    by_time = np.argsort(at, kind="stable")
    return GraphLaunches(*(column[by_time] for column in columns))  # type: ignore[arg-type]
