"""What was counted, as JSON and as Markdown."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from onelaunch.proof.markdown import markdown_table
from onelaunch.proof.profile.compare import Comparison, Row, compare
from onelaunch.proof.profile.count import KernelCount, Spread, StepCounts, device_names

_NAME_WIDTH, _TAIL = 80, 36


def to_json(counts: StepCounts) -> dict[str, Any]:
    """Everything counted; docs/launches.md describes the keys."""
    return {
        "trace": counts.trace.path,
        "steps": counts.steps,
        "steps_from": counts.found.source,
        "launches": _spread(counts.launches),
        "kernels": _kernels(counts.kernels),
        "graph_launches": counts.graph_launches.mode,
        "graph_nodes": counts.graph_nodes.mode,
        "graph_kernels": _kernels(counts.graph_kernels),
        "host_launches": counts.host_launches.mode,
        "kernel_events": counts.kernel_events.mode,
        "copies": _kernels(counts.copies),
        "device_us": counts.device_us,
        "device": device_names(counts.trace)[counts.device],
        "devices": sorted(device_names(counts.trace).values()),
        "missing": counts.missing,
    }


def comparison_json(a: StepCounts, b: StepCounts) -> dict[str, Any]:
    """Both traces' counts, and the kernels whose counts differ or do not."""
    lists = compare(a, b)
    return {
        "a": to_json(a),
        "b": to_json(b),
        "changed": [_row(row) for row in lists.changed],
        "unchanged": [_row(row) for row in lists.unchanged],
        "graph_changed": [_row(row) for row in lists.graph_changed],
        "graph_unchanged": [_row(row) for row in lists.graph_unchanged],
    }


def _row(row: Row) -> dict[str, Any]:
    return asdict(row)


def _spread(spread: Spread) -> dict[str, Any]:
    others = {str(value): steps for value, steps in spread.others.items()}
    return {"mode": spread.mode, "share": spread.share, "others": others}


def _kernels(kernels: dict[str, KernelCount]) -> dict[str, Any]:
    return {
        name: {**_spread(kernel.count), "device_us": kernel.device_us} for name, kernel in kernels.items()
    }


def markdown(counts: StepCounts) -> str:
    """One trace's counts."""
    lines = [f"# Launches of a decode step: {counts.trace.path}", "", *_about(counts), "", *_totals([counts])]
    parts = (
        ("Launched by themselves", counts.kernels),
        ("Nodes of graphs", counts.graph_kernels),
        ("Copies from and to the host (no launches)", counts.copies),
    )
    for title, kernels in parts:
        if kernels:
            codes = _codes(kernels)
            rows = [
                [codes[name], str(kernel.count.mode), _others(kernel.count), f"{kernel.device_us:,.1f}"]
                for name, kernel in kernels.items()
            ]
            header = ["kernel", "a step", "in other steps", "us a step"]
            lines += ["", f"## {title}", "", *markdown_table(header, rows, left=1)]
    return "\n".join(lines) + "\n"


def comparison_markdown(a: StepCounts, b: StepCounts) -> str:
    """Two traces side by side."""
    lists: Comparison = compare(a, b)
    lines = ["# Launches of a decode step, A and B", ""]
    for name, counts in (("A", a), ("B", b)):
        lines += [f"{name}: {counts.trace.path}", "", *_about(counts), ""]
    lines += _totals([a, b])
    parts = (
        ("Kernels whose count differs", lists.changed, "None."),
        ("Kernels whose count is the same", lists.unchanged, "None."),
        ("Graph nodes whose count differs", lists.graph_changed, ""),
        ("Graph nodes whose count is the same", lists.graph_unchanged, ""),
    )
    for title, rows, otherwise in parts:
        if rows or otherwise:
            lines += ["", f"## {title}", "", *(_rows(rows) if rows else [otherwise])]
    return "\n".join(lines) + "\n"


def _rows(rows: list[Row]) -> list[str]:
    codes = _codes(row.name for row in rows)
    cells = [
        [
            codes[row.name],
            str(row.a),
            str(row.b),
            f"{row.b - row.a:+d}",
            f"{row.a_us:,.1f}",
            f"{row.b_us:,.1f}",
        ]
        for row in rows
    ]
    return markdown_table(["kernel", "in A", "in B", "B - A", "A, us", "B, us"], cells, left=1)


def _about(counts: StepCounts) -> list[str]:
    names = device_names(counts.trace)
    others = sorted({*names.values()} - {names[counts.device]})
    device = f"device {names[counts.device]}" + (f" (--device: {', '.join(others)})" if others else "")
    steps = f"{counts.steps:,} step{'s' * (counts.steps != 1)}, from {counts.found.source}; {device}"
    return [steps, *(["", *(f"- {note}" for note in counts.missing)] if counts.missing else [])]


def _totals(both: list[StepCounts]) -> list[str]:
    rows = [
        ["launches", *(_shared(counts.launches) for counts in both)],
        ["graph launches, of these", *(_shared(counts.graph_launches) for counts in both)],
        ["launch calls of the host, without graphs'", *(_shared(counts.host_launches) for counts in both)],
        ["graph nodes", *(_shared(counts.graph_nodes) for counts in both)],
        ["kernels on the GPU, nodes among them", *(_shared(counts.kernel_events) for counts in both)],
        ["device time, us (median)", *(f"{counts.device_us:,.1f}" for counts in both)],
    ]
    return markdown_table(["a step", *(["in A", "in B"] if len(both) == 2 else ["usual"])], rows, left=1)


def _shared(spread: Spread) -> str:
    if not spread.others:
        return str(spread.mode)
    return f"{spread.mode} in {spread.share:.0%} of steps ({_others(spread)})"


def _others(spread: Spread) -> str:
    shown = sorted(spread.others.items(), key=lambda item: (-item[1], item[0]))
    text = ", ".join(f"{value} in {steps:,}" for value, steps in shown[:4])
    return text + (f", {len(shown) - 4} more" if len(shown) > 4 else "")


def _codes(names: Iterable[str]) -> dict[str, str]:
    """Each name as code in a table. A long one's middle is left out, but for where it is unlike others."""
    alike: dict[str, list[str]] = {}
    for name in names:
        alike.setdefault(_short(name, len(name) - _TAIL), []).append(name)
    codes = {}
    for short, members in alike.items():
        for name in members:
            same = max((_same(name, other) for other in members if other != name), default=0)
            text = short if len(members) == 1 else _short(name, same - _TAIL // 2)
            codes[name] = "`" + " ".join(text.replace("`", "'").replace("|", "\\|").split()) + "`"
    return codes


def _same(a: str, b: str) -> int:
    """The number of characters that both start with."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _short(name: str, tail: int) -> str:
    """The start of a name, and what comes from ``tail`` on, in ``_NAME_WIDTH`` characters."""
    if len(name) <= _NAME_WIDTH:
        return name
    start = _NAME_WIDTH - _TAIL - 3
    if tail <= start:
        return name[: _NAME_WIDTH - 2] + " …"
    return f"{name[:start]} … {name[tail : tail + _TAIL]}"
