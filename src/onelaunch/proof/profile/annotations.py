"""Decode steps from user annotations: which annotation, and which of its copies."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from onelaunch.proof.profile.trace import Floats, Ints, Trace

LOOKED_FOR = "ProfilerStep#N, decode, execute_context_0(0)_generation_N, step"
# In this order; the second is vLLM's, of a step without prefill.
_PATTERNS = (
    re.compile(r"^ProfilerStep#\d+"),
    re.compile(r"^execute_context_0\(0\)_generation_[1-9]"),
    re.compile(r"decode", re.IGNORECASE),
    re.compile(r"(^|[^a-z])step([^a-z]|$)", re.IGNORECASE),
)
# Annotations that PyTorch, its compiler and collectives make by themselves.
_NOT_STEPS = re.compile(
    r"nccl|gloo|##|Optimizer\.|Torch-Compiled|TorchDynamo|enumerate\(DataLoader|Distributed"
)


@dataclass(frozen=True, eq=False)
class Chosen:
    """Annotations that are steps: their indices, whether they are a GPU's, and their name, numbers as N."""

    rows: Ints
    on_gpu: bool
    name: str


def choose(trace: Trace, pattern: str | None) -> Chosen | None:
    """The annotations that match a pattern, or else those that look most like steps; None if none does.

    Raises:
        ValueError: the pattern is no regular expression.
    """
    if pattern is not None:
        try:
            wanted = re.compile(pattern)
        except re.error as error:
            raise ValueError(f"annotation is {pattern!r}: not a regular expression: {error}") from error
    for on_gpu in (False, True):
        rows = np.flatnonzero((trace.annotations.on_gpu == on_gpu) & (trace.annotations.duration > 0))
        if pattern is not None:
            found = _matching(trace, rows, wanted)
            if len(found):
                families = {_family(trace.names[i]) for i in np.unique(trace.annotations.name[found])}
                return Chosen(found, on_gpu, families.pop() if len(families) == 1 else pattern)
            continue
        if (chosen := _guess(trace, rows, on_gpu)) is not None:
            return chosen
    return None


def _guess(trace: Trace, rows: Ints, on_gpu: bool) -> Chosen | None:
    names = trace.annotations.name
    own = [i for i in np.unique(names[rows]).tolist() if not _NOT_STEPS.match(trace.names[i])]
    rows = rows[np.isin(names[rows], own)]
    for wanted in _PATTERNS:
        found = _matching(trace, rows, wanted)
        if len(found):
            families = _families(trace, found)
            repeated = [family for family in families if len(families[family]) > 1] or list(families)
            # An outer annotation lasts longer than those in it.
            name = max(repeated, key=lambda family: float(trace.annotations.duration[families[family]].sum()))
            return Chosen(families[name], on_gpu, name)
    families = _families(trace, rows)
    repeated = [family for family in families if len(families[family]) > 1]
    return Chosen(families[repeated[0]], on_gpu, repeated[0]) if len(repeated) == 1 else None


def _family(name: str) -> str:
    return re.sub(r"\d+", "N", name)


def _families(trace: Trace, rows: Ints) -> dict[str, Ints]:
    families: dict[str, list[int]] = {}
    for row in rows.tolist():
        families.setdefault(_family(trace.names[trace.annotations.name[row]]), []).append(row)
    return {family: np.array(members, np.int64) for family, members in families.items()}


def _matching(trace: Trace, rows: Ints, wanted: re.Pattern[str]) -> Ints:
    names = trace.annotations.name[rows]
    matching = [i for i in np.unique(names).tolist() if wanted.search(trace.names[i])]
    return rows[np.isin(names, matching)]


def one_a_step(trace: Trace, rows: Ints, launched_at: Floats, launched_by: Ints) -> Ints:
    """The rows that are steps: of nested ones the outermost, of copies on several threads one thread's.

    Args:
        launched_at, launched_by: ``[launches]``, host time and thread of what is to be counted: that thread's
            annotations are taken before copies on others.
    """
    annotations = trace.annotations
    times = np.sort(launched_at)
    threads: dict[int, list[int]] = {}
    for row in rows.tolist():
        threads.setdefault(int(annotations.thread[row]), []).append(row)

    def order(thread: int) -> tuple[int, int, int, float]:
        members = threads[thread]
        covered = sum(_inside(times, annotations.at[i], annotations.duration[i]) for i in members)
        return (
            -int((launched_by == thread).sum()),
            -covered,
            -len(members),
            float(annotations.at[members[0]]),
        )

    taken: list[int] = []
    for thread in sorted(threads, key=order):
        taken = _add(trace, taken, _outermost(trace, threads[thread]))
    return np.array(taken, np.int64)


def _inside(times: Floats, at: float, duration: float) -> int:
    return int(np.searchsorted(times, at + duration, "right") - np.searchsorted(times, at))


def _outermost(trace: Trace, rows: Iterable[int]) -> list[int]:
    at, duration = trace.annotations.at, trace.annotations.duration
    kept: list[int] = []
    end = -np.inf
    for row in sorted(rows, key=lambda row: (at[row], -duration[row])):
        if at[row] + duration[row] > end:  # else it is inside the one before
            kept.append(row)
            end = at[row] + duration[row]
    return kept


def _add(trace: Trace, taken: list[int], rows: list[int]) -> list[int]:
    """``taken`` and the rows that neither overlap one of them nor repeat its numbered name, by time."""
    if not taken:
        return rows
    at, names = trace.annotations.at, trace.annotations.name
    ends = at + trace.annotations.duration
    numbered = {names[row] for row in taken if re.search(r"\d", trace.names[names[row]])}
    starts = np.array([at[row] for row in taken])
    stops = np.array([ends[row] for row in taken])
    more = []
    for row in rows:
        before = int(np.searchsorted(starts, ends[row])) - 1  # the last that starts before this ends
        if names[row] not in numbered and (before < 0 or stops[before] <= at[row]):
            more.append(row)
    return sorted([*taken, *more], key=lambda row: at[row])
