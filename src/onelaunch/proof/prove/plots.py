"""Pictures of results, as PNG."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from onelaunch.proof.ab.plan import ARMS

_COLOURS = {"base": "#8a8f98", "change": "#d9480f"}
_DPI = 150


def draw(tool: str, result: Mapping[str, Any] | None, path: Path) -> bool:
    """Draw a tool's result into ``path``; False if there is nothing to see in it."""
    if result is None or tool not in _DRAWN:
        return False
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 3.2), layout="constrained")
    if not _DRAWN[tool](figure, result):
        return False
    figure.savefig(path, dpi=_DPI)
    return True


def _ab(figure: Any, result: Mapping[str, Any]) -> bool:
    """Every round of both arms, a panel a concurrency."""
    points = result["points"]
    panels = figure.subplots(1, len(points), squeeze=False)[0]
    for panel, point in zip(panels, points, strict=True):
        for i, arm in enumerate(ARMS):
            values = [one[arm]["mean_us"] for one in point["rounds"]]
            panel.plot([i] * len(values), values, "o", color=_COLOURS[arm], alpha=0.5, label=arm)
            panel.hlines(point[f"{arm}_us"], i - 0.2, i + 0.2, color=_COLOURS[arm], linewidth=2.5)
        for one in point["rounds"]:
            panel.plot(
                [0, 1], [one[arm]["mean_us"] for arm in ARMS], color="#ced4da", linewidth=0.8, zorder=0
            )
        panel.set_xticks([0, 1], ARMS)
        panel.set_xlim(-0.5, 1.5)
        panel.set_title(f"{point['concurrency']} in flight: {point['delta_percent']:+.1f}%", fontsize=10)
    panels[0].set_ylabel(f"{result['metric'].replace('_', ' ')}, us")
    return True


def _acceptance(figure: Any, result: Mapping[str, Any]) -> bool:
    """How often each position is accepted, before and now."""
    panel = figure.subplots()
    rates = result["acceptance_rate_per_position"]
    places = range(1, len(rates) + 1)
    before = (result.get("against") or {}).get("acceptance_rate_per_position")
    if before and len(before) == len(rates):
        panel.bar([i - 0.2 for i in places], before, 0.4, color=_COLOURS["base"], label="before")
        panel.bar([i + 0.2 for i in places], rates, 0.4, color=_COLOURS["change"], label="now")
        panel.legend(frameon=False)
    else:
        panel.bar(places, rates, 0.6, color=_COLOURS["change"])
    panel.set_xticks(places)
    panel.set_xlabel("position in the draft")
    panel.set_ylabel("share accepted")
    panel.set_ylim(0, 1)
    return bool(rates)


def _launches(figure: Any, result: Mapping[str, Any]) -> bool:
    """Launches a step by kernel, of two traces, where they differ."""
    if "changed" not in result:
        return False
    changed = sorted(result["changed"], key=lambda one: -abs(one["b"] - one["a"]))[:12][::-1]
    panel = figure.subplots()
    figure.set_size_inches(7.5, 1.2 + 0.35 * len(changed))
    places = range(len(changed))
    panel.barh(
        [i + 0.2 for i in places], [one["a"] for one in changed], 0.4, color=_COLOURS["base"], label="A"
    )
    panel.barh(
        [i - 0.2 for i in places], [one["b"] for one in changed], 0.4, color=_COLOURS["change"], label="B"
    )
    panel.set_yticks(places, [one["name"][:48] for one in changed], fontsize=8)
    panel.set_xlabel("a step")
    figure.legend(loc="outside upper right", ncols=2, frameon=False)
    return bool(changed)


_DRAWN: dict[str, Callable[[Any, Mapping[str, Any]], bool]] = {
    "ab": _ab,
    "acceptance": _acceptance,
    "launches": _launches,
}
