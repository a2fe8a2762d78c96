"""Decode steps of a trace without annotations: from the graph launch that repeats."""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from onelaunch.proof.profile.trace import Floats, Ints

_PERIODIC = 0.9  # a prefill in between must not hide the period
_LONGEST_PERIOD = 512
_CLEAR = 2.0  # times the next longest wait


def anchors(signature: Ints, device_us: Floats) -> Ints:
    """Indices of the graph launches that stand for a step each.

    Where several graphs alternate, as of target and draft: of those launched once a
    period, the longest's. Else all.
    """
    count = len(signature)
    for period in range(1, min(count // 2, _LONGEST_PERIOD) + 1):
        if np.mean(signature[period:] == signature[:-period]) < _PERIODIC:
            continue
        if period == 1:
            break
        times = Counter(signature.tolist())
        rarest = min(abs(n * period - count) for n in times.values() if n > 1)
        once = [graph for graph, n in times.items() if n > 1 and abs(n * period - count) == rarest]
        longest = max(once, key=lambda graph: float(np.median(device_us[signature == graph])))
        return np.flatnonzero(signature == longest)
    return np.arange(count)


def cut(at: Floats, end: Floats, anchor: Ints) -> tuple[Ints, Ints]:
    """First and last launch of each step.

    Between two anchors the host waits somewhere for the earlier step: launches before that are its own, those
    after it the next one's. Steps that the trace has in part, at its start and end, are left out.

    Args:
        at, end: ``[launches]``, host times of all launches of a device, by time.
        anchor: ``[steps]``, which of them stand for a step each: at least two.
    """
    between = np.diff(anchor) - 1
    usual = _mode(between)
    head, tail = int(anchor[0]), len(at) - 1 - int(anchor[-1])
    if head + tail == usual:  # the trace starts and ends with a step
        after = tail
    else:
        places = anchor[:-1][between == usual][:, None] + np.arange(usual + 1)
        after = int(np.argmax(np.median(at[places + 1] - end[places], axis=0)))
    left = np.minimum(after, between)
    for i in np.flatnonzero(between != usual):
        place = anchor[i] + np.arange(between[i] + 1)
        waits = at[place + 1] - end[place]
        if len(waits) > 1 and np.max(waits) > _CLEAR * np.sort(waits)[-2]:
            left[i] = np.argmax(waits)
    before = between - left
    whole = np.ones(len(anchor), bool)
    whole[0] &= head >= before.min()
    whole[-1] &= tail >= left.min()
    if not whole.any():
        whole[:] = True
    # At the start of a trace there may be more than a step: a prefill, a warm-up.
    starts = anchor[0] - (head if head <= before.max() else usual - after)
    stops = anchor[-1] + (tail if tail <= left.max() else after)
    first = np.concatenate([[starts], anchor[:-1] + left + 1])
    last = np.concatenate([anchor[:-1] + left, [stops]])
    return first[whole], last[whole]


def _mode(values: NDArray[np.int64]) -> int:
    seen, times = np.unique(values, return_counts=True)
    return int(seen[np.argmax(times)])
