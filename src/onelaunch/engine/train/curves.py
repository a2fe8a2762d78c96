"""The loss curves of a training, as a picture."""

from __future__ import annotations

from pathlib import Path


def draw(history: dict[str, list[dict[str, float]]], path: Path) -> None:
    """A panel a stage, a line a loss, over steps."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    count = max(len(history), 1)
    figure, panels = plt.subplots(1, count, figsize=(5.5 * count, 3.6), squeeze=False)
    for panel, (stage, rows) in zip(panels[0], history.items(), strict=False):
        names = [name for name in rows[0] if name not in ("step", "minutes", "acceptance length")]
        steps = [row["step"] for row in rows]
        for name in names:
            panel.plot(steps, [row[name] for row in rows], label=name, linewidth=1)
        panel.set(title=stage, xlabel="step", yscale="log")
        if "acceptance length" in rows[0]:
            other = panel.twinx()
            other.plot(steps, [row["acceptance length"] for row in rows], color="black", linewidth=1)
            other.set_ylabel("acceptance length (black)")
        panel.legend(frameon=False, loc="center right")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
