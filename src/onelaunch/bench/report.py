"""Tables, verdicts and a plot, drawn from the benchmark's JSON alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onelaunch.proof.markdown import markdown_table

Result = Mapping[str, Any]

_ARMS = {
    "usual": "usual",
    "per-group": "per group",
    "onelaunch": "**onelaunch**",
    "usual-dense": "usual, dense",
    "onelaunch-dense": "**onelaunch, dense**",
    "empty": "empty kernels",
    "fill": "plain fill",
    "bytes": "bytes",
}
_STYLES = {
    "usual": ("C3", "-"),
    "usual-dense": ("C3", "--"),
    "per-group": ("C1", "-"),
    "onelaunch": ("C0", "-"),
    "onelaunch-dense": ("C0", "--"),
    "fill": ("0.4", "-."),
    "empty": ("0.6", ":"),
    "bytes": ("0.4", ":"),
}


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of the benchmark: ``value`` is to be at most ``limit``."""

    what: str
    value: float
    limit: float

    @property
    def met(self) -> bool:
        return self.value <= self.limit


class Times:
    """The records by arm and row count."""

    def __init__(self, result: Result) -> None:
        self._records = {(record["arm"], record["rows"]): record for record in result["records"]}
        self.rows = sorted({record["rows"] for record in result["records"]})

    def of(self, arm: str, rows: int, field: str = "device_us") -> float | None:
        value = self._records.get((arm, rows), {}).get(field)
        return None if value is None else float(value)

    def floor(self, rows: int) -> float | None:
        """The larger of what empty launches and moving the bytes take."""
        parts = [self.of(arm, rows) for arm in ("empty", "bytes")]
        return max((part for part in parts if part is not None), default=None)

    def ratio(self, arm: str, base: str, rows: int, field: str = "device_us") -> float | None:
        value, of = self.of(arm, rows, field), self.of(base, rows, field)
        return None if value is None or not of else value / of


def bars(result: Result) -> list[Bar]:
    """The bars that the result's row counts allow to judge."""
    return list(_bars(Times(result)))


def _bars(times: Times) -> Iterator[Bar]:
    def ratio(arm: str, base: str, rows: int, limit: float, field: str = "device_us") -> Iterator[Bar]:
        value = times.ratio(arm, base, rows, field)
        if value is not None:
            kind = "host" if field == "host_us" else "device"
            yield Bar(f"{kind}, {rows:,} rows: {arm} / {base}", value, limit)

    def of_floor(rows: int, limit: float) -> Iterator[Bar]:
        value, floor = times.of("onelaunch", rows), times.floor(rows)
        if value is not None and floor:
            yield Bar(f"device, {rows:,} rows: onelaunch / the larger floor", value / floor, limit)

    yield from ratio("onelaunch", "usual", 7, 1 / 15)
    yield from ratio("onelaunch", "per-group", 7, 1 / 5)
    for rows in (32, 48):
        yield from ratio("onelaunch", "usual", rows, 1 / 15)
    yield from ratio("onelaunch", "usual", 1024, 1 / 8)
    yield from of_floor(1024, 2.5)
    yield from ratio("onelaunch", "bytes", 4096, 2)
    for rows in (7, 14, 28, 32, 48):
        yield from ratio("onelaunch-dense", "usual-dense", rows, 1 / 7)
    yield from ratio("onelaunch-dense", "usual-dense", 7, 1 / 10, "host_us")
    yield from ratio("onelaunch-dense", "usual-dense-graph", 7, 1, "host_us")
    yield from ratio("onelaunch", "usual", 7, 1 / 25, "host_us")
    yield from ratio("onelaunch", "empty", 7, 3, "host_us")
    growth = [
        (after, times.of("onelaunch", after), times.of("onelaunch", before), after / before)
        for before, after in zip(times.rows, times.rows[1:], strict=False)
    ]
    for rows, value, smaller, factor in growth:
        if value is not None and smaller:
            yield Bar(f"device, growth to {rows:,} rows / growth of the rows", value / smaller / factor, 1)


def markdown(result: Result, *, spreads: bool = True) -> str:
    """The result as Markdown: device and host times, and the bars.

    Args:
        spreads: give the tenth and ninetieth percentile beside each median.
    """
    times = Times(result)
    unit = "us (p10 to p90)" if spreads else "us"

    def table(field: str, spread: tuple[str, str], arms: Sequence[str]) -> str:
        return _times_table(times, field, spread if spreads else None, arms)

    rates = ", ".join(f"{name} {rate:,.0f} GB/s" for name, rate in result["copy_bandwidth_gb_s"].items())
    parts = [
        f"{result['device']}; torch {result['torch']}, triton {result['triton']}, "
        f"onelaunch {result['onelaunch']}. A copy of 1 GiB: {rates}.",
        f"Device time of a step's two builds in a CUDA graph, inputs in L2, {unit}:",
        table("device_us", ("p10", "p90"), tuple(_ARMS)),
        f"The same with L2 flushed before each step, {unit}:",
        table(
            "device_us_cold",
            ("device_us_cold_p10", "device_us_cold_p90"),
            ("usual", "per-group", "onelaunch", "usual-dense", "onelaunch-dense"),
        ),
        f"Host time of a step's two builds, {unit}; of a `-graph` arm, of its replay:",
        table(
            "host_us",
            ("host_us_p10", "host_us_p90"),
            (
                "usual",
                "usual-graph",
                "per-group",
                "onelaunch",
                "usual-dense",
                "usual-dense-graph",
                "onelaunch-dense",
                "empty",
            ),
        ),
        "The bars:",
        "\n".join(
            markdown_table(
                ("bar", "measured", "at most", ""),
                [
                    (bar.what, f"{bar.value:.3f}", f"{bar.limit:.3f}", "met" if bar.met else "**not met**")
                    for bar in bars(result)
                ],
                left=1,
            )
        ),
    ]
    return "\n\n".join(parts) + "\n"


def _times_table(times: Times, field: str, spread: tuple[str, str] | None, arms: Sequence[str]) -> str:
    rows = []
    for count in times.rows:
        cells = [f"{count:,}"]
        for arm in arms:
            value = times.of(arm, count, field)
            cell = "-" if value is None else f"{value:.2f}"
            low, high = (times.of(arm, count, name) for name in spread or (field, field))
            if spread and value is not None and low is not None and high is not None:
                cell += f" ({low:.2f}-{high:.2f})"
            cells.append(cell)
        rows.append(cells)
    return "\n".join(markdown_table(("rows", *(_ARMS.get(arm, arm) for arm in arms)), rows, left=1))


def require_matplotlib() -> None:
    """Raise ValueError unless :func:`plot` has what it needs."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise ValueError("plot needs matplotlib: pip install onelaunch[plots]") from None


def plot(result: Result, path: Path) -> None:
    """Device time over rows, both axes logarithmic, with the floors.

    Raises:
        ValueError: matplotlib is not installed.
    """
    require_matplotlib()
    from matplotlib.figure import Figure

    times = Times(result)
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.add_subplot()
    for arm, (color, line) in _STYLES.items():
        points = [(rows, value) for rows in times.rows if (value := times.of(arm, rows)) is not None]
        if points:
            label = _ARMS[arm].strip("*")
            axes.plot(*zip(*points, strict=True), line, color=color, label=label, marker=".", markersize=5)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(times.rows, [f"{rows:,}" for rows in times.rows], rotation=45)
    axes.set_xlabel("rows of a step")
    axes.set_ylabel("device time of both builds, us")
    axes.set_title(f"Metadata of a decode step, 4 target and 3 draft groups, {result['device']}")
    axes.grid(alpha=0.3)
    axes.legend(loc="upper left", fontsize="small", ncols=2)
    figure.savefig(path, dpi=150)
