"""``onelaunch bench``: time the builds on this machine, or show a kept run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markdown import Markdown

from onelaunch.bench import report
from onelaunch.bench.inputs import ROWS
from onelaunch.cli.device import chosen_device
from onelaunch.cli.errors import CheckFailed
from onelaunch.cli.files import file_option, require_writable


def bench(
    rows: Annotated[
        list[int] | None, typer.Option(min=1, help="Row count; may be given more than once.")
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option(min=2, help="Times that each arm is replayed. Default: 200, or 30 with --quick."),
    ] = None,
    quick: Annotated[bool, typer.Option(help="Fewer rounds: numbers to look at, not to keep.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of the inputs.")] = 0,
    kept: Annotated[Path | None, file_option("--from", help="Show this result instead of timing.")] = None,
    json_out: Annotated[
        Path | None,
        typer.Option("--json", metavar="OUT", dir_okay=False, help="Write the result to this file."),
    ] = None,
    markdown_out: Annotated[
        Path | None,
        typer.Option("--markdown", metavar="OUT", dir_okay=False, help="Write the tables to this file."),
    ] = None,
    plot_out: Annotated[
        Path | None,
        typer.Option("--plot", metavar="OUT", dir_okay=False, help="Draw device times into this PNG."),
    ] = None,
) -> None:
    """Time the one-launch build against the usual ways, on the same inputs, after checking them all."""
    require_writable(json=json_out, markdown=markdown_out, plot=plot_out)
    if plot_out is not None:
        report.require_matplotlib()
    console = Console()
    wanted = tuple(rows or ROWS)
    result = _read(kept) if kept is not None else _measured(console, wanted, rounds, quick, seed)
    if json_out is not None:
        json_out.write_text(json.dumps(result, indent=1) + "\n")
    console.print(Markdown(report.markdown(result, spreads=False)))  # a terminal is too narrow for them
    if markdown_out is not None:
        markdown_out.write_text(report.markdown(result))
    if plot_out is not None:
        report.plot(result, plot_out)


def _read(path: Path) -> dict[str, Any]:
    try:
        result = json.loads(path.read_text())
        report.markdown(result)  # what it can't show is no result
        found = len(result["records"])
    except (ValueError, KeyError, TypeError, AttributeError):
        found = 0
    if not found:
        raise ValueError(f"from is {path}: it must be a result that bench --json wrote")
    return dict(result)


def _measured(
    console: Console, rows: tuple[int, ...], rounds: int | None, quick: bool, seed: int
) -> dict[str, Any]:
    device = chosen_device(None)
    if device.type == "cpu":
        raise ValueError("device is 'cpu': the benchmark needs a GPU; --from shows a kept result")
    from onelaunch.bench.run import ArmMismatch, Rounds, run_bench

    plan = Rounds(device=30, cold=8, host=6) if quick else Rounds()
    if rounds is not None:
        plan = Rounds(rounds, min(rounds, plan.cold), min(rounds, plan.host))
    with console.status("checking"):
        try:
            return run_bench(
                rows,
                device,
                rounds=plan,
                seed=seed,
                progress=lambda count, what: console.print(f"{count:,} rows: all arms equal, {what}"),
            )
        except ArmMismatch as error:
            raise CheckFailed(f"outputs differ, so no times are reported: {error}") from None
