"""``onelaunch bench``: time the builds on this machine, or show a kept run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markdown import Markdown

from onelaunch.bench.inputs import ROWS
from onelaunch.cli.device import chosen_device
from onelaunch.cli.errors import CheckFailed


def bench(
    rows: Annotated[
        list[int] | None, typer.Option(min=1, help="Row count; may be given more than once.")
    ] = None,
    quick: Annotated[bool, typer.Option(help="Fewer rounds: numbers to look at, not to keep.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of the inputs.")] = 0,
    kept: Annotated[
        Path | None,
        typer.Option(
            "--from", exists=True, dir_okay=False, readable=True, help="Show this result instead of timing."
        ),
    ] = None,
    json_out: Annotated[
        Path | None, typer.Option("--json", metavar="OUT", help="Write the result to this file.")
    ] = None,
    markdown_out: Annotated[
        Path | None, typer.Option("--markdown", metavar="OUT", help="Write the tables to this file.")
    ] = None,
    plot_out: Annotated[
        Path | None, typer.Option("--plot", metavar="OUT", help="Draw device times into this PNG.")
    ] = None,
) -> None:
    """Time the one-launch build against the usual ways, on the same inputs, after checking them all."""
    for name, path in (("json", json_out), ("markdown", markdown_out), ("plot", plot_out)):
        if path is not None and not path.absolute().parent.is_dir():
            raise ValueError(f"{name} is {path}: there is no folder {path.parent}")
    console = Console()
    result = _read(kept) if kept is not None else _measured(console, tuple(rows or ROWS), quick, seed)
    if json_out is not None:
        json_out.write_text(json.dumps(result, indent=1) + "\n")

    from onelaunch.bench import report

    text = report.markdown(result)
    console.print(Markdown(text))
    if markdown_out is not None:
        markdown_out.write_text(text)
    if plot_out is not None:
        report.plot(result, plot_out)


def _read(path: Path) -> dict[str, Any]:
    try:
        result = json.loads(path.read_text())
        records = result["records"]
        assert records and all("arm" in record and "rows" in record for record in records)
    except (ValueError, KeyError, TypeError, AssertionError):
        raise ValueError(f"from is {path}: it must be a result that bench --json wrote") from None
    assert isinstance(result, dict)
    return result


def _measured(console: Console, rows: tuple[int, ...], quick: bool, seed: int) -> dict[str, Any]:
    device = chosen_device(None)
    if device.type == "cpu":
        raise ValueError("device is 'cpu': the benchmark needs a GPU; --from shows a kept result")
    from onelaunch.bench.run import ArmMismatch, Rounds, run_bench

    rounds = Rounds(device=30, cold=8, host=6) if quick else Rounds()
    with console.status("checking"):
        try:
            return run_bench(
                rows,
                device,
                rounds=rounds,
                seed=seed,
                progress=lambda count, what: console.print(f"{count:,} rows: all arms equal, {what}"),
            )
        except ArmMismatch as error:
            raise CheckFailed(f"outputs differ, nothing is timed: {error}") from None
