"""``onelaunch sync-check``: a PyTorch program, and where it waits for its device."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from onelaunch.cli.errors import CheckFailed
from onelaunch.cli.files import json_option, require_writable
from onelaunch.cli.signals import INTERRUPTED, signals_interrupt
from onelaunch.proof.processes.command import runnable
from onelaunch.proof.sync_check.program import DEVICES
from onelaunch.proof.sync_check.result import Place, Result
from onelaunch.proof.sync_check.run import Run, run
from onelaunch.proof.sync_check.warmup import Warmup


def sync_check(
    command: Annotated[
        list[str], typer.Argument(metavar="COMMAND", help="The program, after --. No shell runs it.")
    ],
    device: Annotated[
        str, typer.Option(help="cuda, cpu, or auto: CUDA in a process that has it.", metavar="DEVICE")
    ] = "auto",
    warmup_seconds: Annotated[float, typer.Option(min=0, help="Not counted, from the start.")] = 0.0,
    after: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Count from when the program prints this.")
    ] = None,
    step: Annotated[
        str | None,
        typer.Option(metavar="MODULE:FUNCTION", help="Count only within calls of this function or method."),
    ] = None,
    warmup_steps: Annotated[
        int, typer.Option(min=0, help="Calls of it that are not counted, in each process.")
    ] = 0,
    stop_timeout: Annotated[
        float, typer.Option(min=0.1, help="Seconds to end in after Ctrl-C, before it is killed.")
    ] = 30.0,
    depth: Annotated[int, typer.Option(min=1, help="Frames of a stack to show.")] = 4,
    json_out: Annotated[Path | None, json_option("Also write everything to this file.")] = None,
) -> None:
    """Run a program and show every device synchronisation after warm-up, with its stack.

    Status 0: none. 1: some. 2: nothing could be checked. A program that fails: its own status.
    """
    if device not in DEVICES:
        raise ValueError(f"device is {device!r}: it must be one of {', '.join(DEVICES)}")
    if after == "":
        raise ValueError("after is empty: it must be text that the program prints")
    if step is not None and not all(step.partition(":")):
        raise ValueError(f"step is {step!r}: it must be MODULE:FUNCTION or MODULE:CLASS.METHOD")
    if warmup_steps and step is None:
        raise ValueError("warmup-steps are of --step MODULE:FUNCTION, which is missing")
    require_writable(json=json_out)
    if shutil.which(runnable(command)[0]) is None:
        raise ValueError(f"{command[0]} can't be run: there is no such program")
    with signals_interrupt():
        done = run(command, device, Warmup(warmup_seconds, after, warmup_steps), step, stop_timeout)
    if json_out is not None:
        json_out.write_text(json.dumps(_as_json(command, done), indent=1) + "\n")
    _print(Console(), done.result, depth)
    _end(done, step, after)


def _end(done: Run, step: str | None, after: str | None) -> None:
    """Raise what the exit status follows from; nothing when all is well."""
    result = done.result
    count = f"{result.count:,} synchronisation{'s' * (result.count != 1)} after warm-up"
    if done.stuck:
        raise CheckFailed(f"a process of the command outlives SIGKILL; {count} till then")
    if done.status is None:
        print(
            f"onelaunch: stopped: nothing of the command is left running; {count} till then", file=sys.stderr
        )
        raise typer.Exit(INTERRUPTED)
    if done.status:
        print(
            f"onelaunch: the command failed with exit status {done.status}; {count} till then",
            file=sys.stderr,
        )
        raise typer.Exit(done.status)
    if result.count:
        raise CheckFailed(count)
    for pid, why in result.not_watched.items():
        raise ValueError(f"process {pid} could not be watched: {why}")
    if not result.devices:
        raise ValueError("nothing was checked: no Python process that could be watched imported torch")
    if not result.warm:
        never = f"{after!r} was never printed" if after is not None else "the program was too short"
        raise ValueError(f"nothing was checked: warm-up did not end, as {never}")
    if result.steps == 0:
        raise ValueError(f"nothing was checked: {step} was not called after warm-up")


def _print(console: Console, result: Result, depth: int) -> None:
    if result.places:
        table = Table("count", "call", "where, innermost last", title_justify="left", show_lines=True)
        table.columns[0].justify = "right"
        table.columns[2].overflow = "fold"  # a path that ends in dots can't be opened
        for place in result.places:
            table.add_row(f"{place.count:,}", place.what, Text(_stack(place, depth)))
        console.print(table)
    devices = ", ".join(sorted(set(result.devices.values())))
    line = f"{result.count:,} after warm-up, {result.warming:,} not counted; "
    line += f"processes with torch: {len(result.devices)}" + (f", watched for {devices}" if devices else "")
    if result.steps:
        line += f"; {result.steps:,} steps: {result.count / result.steps:.3g} a step"
    console.print(line, markup=False, highlight=False, soft_wrap=True)
    for pid, why in result.not_watched.items():
        console.print(f"process {pid} was not watched: {why}", markup=False, highlight=False, soft_wrap=True)


def _stack(place: Place, depth: int) -> str:
    stack = place.stack
    if place.where is not None:
        stack = stack[: len(stack) - stack[::-1].index(place.where)]
    lines = []
    for frame in stack[-depth:]:
        lines.append(f"{_short(frame.file)}:{frame.line} {frame.function}")
        if frame.source:
            lines.append(f"    {frame.source}")
    if place.threads != {"MainThread"}:
        lines.append(f"threads: {', '.join(sorted(place.threads))}")
    if len(place.processes) > 1:
        lines.append(f"processes: {', '.join(map(str, sorted(place.processes)))}")
    return "\n".join(lines)


def _short(file: str) -> str:
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file


def _as_json(command: Sequence[str], done: Run) -> dict[str, Any]:
    result = done.result
    return {
        "command": list(command),
        "exit_status": done.status,
        "stopped": done.status is None,
        "after_warmup": result.count,
        "not_counted": result.warming,
        "steps": result.steps,
        "devices": result.devices,
        "not_watched": result.not_watched,
        "places": [place.as_json() for place in result.places],
    }
