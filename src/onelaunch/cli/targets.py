"""``onelaunch targets``: every kernel compiled for GPUs that need not be here."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from onelaunch.cli.errors import CheckFailed
from onelaunch.cli.files import json_option, require_writable
from onelaunch.proof.targets import TARGETS, Resources, check_targets, compile_all_apart, num_variants


def targets(
    target: Annotated[
        list[str] | None,
        typer.Option(
            help=f"gfx942, sm_90 and so on; may be given more than once. Default: {' '.join(TARGETS)}."
        ),
    ] = None,
    json_out: Annotated[Path | None, json_option("Also write the result to this file.")] = None,
) -> None:
    """Compile every kernel for each target and show its registers; a spill fails."""
    wanted = tuple(target or TARGETS)
    check_targets(wanted)
    require_writable(json=json_out)
    console = Console()
    found: list[Resources] = []
    with Progress(TextColumn("kernels"), BarColumn(), MofNCompleteColumn(), console=console) as progress:
        bar = progress.add_task("", total=num_variants() * len(wanted))

        def add(resources: Resources) -> None:
            found.append(resources)
            progress.update(bar, completed=len(found))

        compile_all_apart(wanted, add)
    console.print(_table(found, wanted))
    if json_out is not None:
        json_out.write_text(json.dumps([dataclasses.asdict(one) for one in found], indent=1) + "\n")
    spilling = [one for one in found if one.spills]
    if spilling:
        names = ", ".join(f"{one.kernel} for {one.target}" for one in spilling)
        raise CheckFailed(f"registers spill: {names}")
    console.print(f"{len(found)} kernels compiled, no spills")


def _table(found: list[Resources], targets: tuple[str, ...]) -> Table:
    table = Table(
        title="vector registers of a thread",
        caption="AMD: vector + scalar registers. A spill is shown after an exclamation mark.",
        title_justify="left",
        caption_justify="left",
    )
    table.add_column("kernel")
    for target in targets:
        table.add_column(target, justify="right")
    cells = {(one.kernel, one.target): one for one in found}
    for kernel in dict.fromkeys(one.kernel for one in found):
        table.add_row(kernel, *(_cell(cells[kernel, target]) for target in targets))
    return table


def _cell(one: Resources) -> str:
    scalar = "" if one.scalar_registers is None else f"+{one.scalar_registers}"
    return f"{one.registers}{scalar}" + (f" !{one.spills}" if one.spills else "")
