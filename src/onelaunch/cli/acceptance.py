"""``onelaunch acceptance``: mean acceptance length around a command, or over a time."""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from onelaunch.cli.errors import CheckFailed
from onelaunch.cli.files import Against, json_option, require_writable
from onelaunch.cli.signals import INTERRUPTED, signals_interrupt
from onelaunch.proof.acceptance.reading import read_metrics
from onelaunch.proof.acceptance.result import headline, loss_percent, make_result, markdown, read_result
from onelaunch.proof.extras import require
from onelaunch.proof.load.url import check_url
from onelaunch.proof.processes.command import runnable
from onelaunch.proof.processes.failure import ProcessFailed
from onelaunch.proof.processes.process import Process

_POLL_S = 0.1
_WAIT_S, _STOP_TIMEOUT_S = 3600.0, 30.0


def acceptance(
    metrics_url: Annotated[str, typer.Option(help="Of the server, as http://127.0.0.1:8000/metrics.")],
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- COMMAND]", help="The load: what is run between the readings."),
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0.001, help="Wait so long instead, while others send the load.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="Count only this one, of several behind the URL.")] = None,
    against: Against = None,
    min_length: Annotated[float | None, typer.Option(min=1, help="Fail below this.")] = None,
    max_loss: Annotated[
        float | None, typer.Option(min=0, help="Fail when more percent below --against than this.")
    ] = None,
    json_out: Annotated[Path | None, json_option()] = None,
) -> None:
    """Read a server's counters before and after a load: 1 + accepted / drafts, and each position's rate."""
    require("httpx", "prometheus_client")
    if bool(command) == (seconds is not None):
        raise ValueError("give either a command after -- or seconds")
    if max_loss is not None and against is None:
        raise ValueError("max-loss needs against, the result to be compared with")
    check_url("metrics-url", metrics_url)
    require_writable(json=json_out)
    earlier = None if against is None else read_result(against)
    before = read_metrics(metrics_url, model)
    start = time.monotonic()
    if command:
        _run(command)
    elif seconds is not None:
        _wait(seconds)
    result = make_result(before, read_metrics(metrics_url, model), time.monotonic() - start)
    print(markdown(result, earlier))
    if json_out is not None:
        kept = result if earlier is None else {**result, "against": earlier}
        json_out.write_text(json.dumps(kept, indent=1) + "\n")
    if min_length is not None and result["acceptance_length"] < min_length:
        raise CheckFailed(f"{headline(result)}: it must be at least {min_length:g}")
    if max_loss is not None and earlier is not None and loss_percent(earlier, result) > max_loss:
        raise CheckFailed(f"more than {max_loss:g}% is lost: {headline(result, earlier)}")


def _run(command: list[str]) -> None:
    """The command, its output where ours goes. Nothing of it outlives an interrupt."""
    if shutil.which(runnable(command)[0]) is None:
        raise ValueError(f"{command[0]} can't be run: there is no such program")
    status = None
    try:
        with signals_interrupt(), Process(command, None, {}, _STOP_TIMEOUT_S) as process:
            while status is None:
                status = process.wait(_WAIT_S)
    except KeyboardInterrupt:
        print("onelaunch: stopped: nothing of the command is left running, nothing is kept", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None
    except ProcessFailed as error:
        raise CheckFailed(str(error)) from None
    if status != 0:
        raise CheckFailed(f"the command ended with status {status}: its acceptance length is not reported")


def _wait(seconds: float) -> None:
    columns = TextColumn("waiting"), BarColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("", total=seconds)
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(_POLL_S, left))
            progress.update(bar, completed=seconds - left)
