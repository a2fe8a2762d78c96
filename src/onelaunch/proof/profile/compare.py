"""Two traces side by side: which kernels' counts differ."""

from __future__ import annotations

from dataclasses import dataclass

from onelaunch.proof.profile.count import KernelCount, StepCounts


@dataclass(frozen=True)
class Row:
    """A kernel in both traces: launches a step (mode), and device time a step (median, microseconds)."""

    name: str
    a: int
    b: int
    a_us: float
    b_us: float


@dataclass(frozen=True)
class Comparison:
    """Kernels of two traces; those that neither launches in its usual step are in no list."""

    changed: list[Row]
    """The largest difference first."""
    unchanged: list[Row]
    """The controls."""
    graph_changed: list[Row]
    """Nodes of graphs, likewise."""
    graph_unchanged: list[Row]


def compare(a: StepCounts, b: StepCounts) -> Comparison:
    """Compare by name the kernels launched by themselves, and apart from them the nodes of graphs."""
    return Comparison(*_split(a.kernels, b.kernels), *_split(a.graph_kernels, b.graph_kernels))


def _split(a: dict[str, KernelCount], b: dict[str, KernelCount]) -> tuple[list[Row], list[Row]]:
    rows = []
    for name in {**a, **b}:
        counts = [
            (0, 0.0) if one is None else (one.count.mode, one.device_us) for one in (a.get(name), b.get(name))
        ]
        (a_count, a_us), (b_count, b_us) = counts
        if a_count or b_count:
            rows.append(Row(name, a_count, b_count, a_us, b_us))
    changed = sorted((row for row in rows if row.a != row.b), key=lambda row: (-abs(row.a - row.b), row.name))
    return changed, sorted((row for row in rows if row.a == row.b), key=lambda row: (-row.a, row.name))
