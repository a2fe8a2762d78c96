"""Draws docs/pictures/launches.png: a decode step's launches before and after, as counted where they run.

python tools/draw_launches.py [OUT]
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import torch
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from onelaunch import StepBuilder
from onelaunch.bench.inputs import step_inputs, window_groups
from onelaunch.launches import counting

_OUT = Path(__file__).parents[1] / "docs" / "pictures" / "launches.png"
_WAYS = {
    "usual build,\ndense and ragged (AMD)": ("reference", True),
    "usual build,\ndense (NVIDIA)": ("reference", False),
    "onelaunch,\neither": ("kernel", True),
}


def counted(backend: str, ragged: bool) -> Counter[str]:
    """Launches of one step by name: the target's build and the draft's."""
    device = torch.device("cpu")
    step = step_inputs(7, device, context=512)
    with counting() as launches:
        for groups in window_groups(ragged=ragged):
            builder = StepBuilder(groups, max_tokens=64, max_requests=4, device=device, backend=backend)
            builder.build(step.batch, {group.name: step.inputs[group.name] for group in groups})
    return launches


def draw(out: Path) -> None:
    """Count and draw."""
    ways = {label: counted(*arguments) for label, arguments in _WAYS.items()}
    names = list(dict.fromkeys(name for launches in ways.values() for name in launches))
    colors = {name: f"C{i}" for i, name in enumerate(names)}
    figure = Figure(figsize=(10, 2.8), layout="constrained")
    axes = figure.add_subplot()
    for place, (label, launches) in enumerate(ways.items()):
        y = -1.6 * place
        axes.text(-0.6, y + 0.5, label, ha="right", va="center", fontsize=9)
        for x, name in enumerate(launches.elements()):
            axes.add_patch(Rectangle((x, y), 0.8, 1, color=colors[name]))
        axes.text(launches.total() + 0.3, y + 0.5, str(launches.total()), va="center", fontweight="bold")
    axes.set_xlim(-11, max(launches.total() for launches in ways.values()) + 3)
    axes.set_ylim(-1.6 * len(ways) + 1.4, 1.3)
    axes.set_axis_off()
    title = "Launches of a decode step's window metadata: 4 target groups, 3 draft groups, two builds"
    axes.set_title(title, fontsize=10)
    handles = [Patch(color=colors[name], label=name) for name in names]
    figure.legend(handles=handles, loc="outside lower center", ncols=5, fontsize=8, frameon=False)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=150)


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else _OUT)
