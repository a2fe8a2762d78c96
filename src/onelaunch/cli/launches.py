"""``onelaunch launches``: the launches of a decode step, counted in a profiler's trace."""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from onelaunch.cli.errors import CheckFailed
from onelaunch.cli.files import file_argument, require_writable
from onelaunch.proof.extras import require
from onelaunch.proof.profile import report, timeline
from onelaunch.proof.profile.count import StepCounts, count_launches
from onelaunch.proof.profile.trace import read_trace

_PATIENCE = 2.0  # seconds without a progress bar


def launches(
    trace: Annotated[Path, file_argument("A.json[.gz]", "A trace of torch.profiler, from CUDA or ROCm.")],
    other: Annotated[Path | None, file_argument("[B.json[.gz]]", "A trace to compare it with.")] = None,
    annotation: Annotated[
        str | None,
        typer.Option(
            metavar="REGEX", help="The user annotation of a step. Default: found, or else a graph launch."
        ),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="The device to count. Default: the one with the most GPU events.")
    ] = None,
    json_out: Annotated[bool, typer.Option("--json", help="Print JSON instead of Markdown.")] = False,
    json_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the JSON to this file.")
    ] = None,
    expect_fewer: Annotated[
        bool, typer.Option("--expect-fewer", help="Fail unless B has fewer launches a step than A.")
    ] = False,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write a page with a typical step of each trace.")
    ] = None,
) -> None:
    """Count the launches of a decode step in a trace, by kernel; of two traces, what differs."""
    require("ijson")
    require_writable(html=html, json_file=json_file)
    if expect_fewer and other is None:
        raise ValueError("expect-fewer needs a second trace")
    for path in (trace, other):
        if path is not None and path in (html, json_file):
            raise ValueError(f"{path} is a trace: it must not be written over")
    if html is not None:
        require("jinja2")
    if annotation is not None:
        try:
            re.compile(annotation)
        except re.error as error:  # now, and not after reading
            raise ValueError(f"annotation is {annotation!r}: not a regular expression: {error}") from error
    counts = [_counted(path, annotation, device) for path in (trace, other) if path is not None]
    if html is not None:
        html.write_text(timeline.page(counts), encoding="utf-8")
    found = json.dumps(
        report.to_json(counts[0]) if len(counts) == 1 else report.comparison_json(*counts), indent=2
    )
    if json_file is not None:
        json_file.write_text(found + "\n")
    if json_out:
        print(found)
    else:
        text = report.markdown(counts[0]) if len(counts) == 1 else report.comparison_markdown(*counts)
        sys.stdout.write(text)
    if expect_fewer and min(one.launches.share for one in counts) < 0.5:
        raise CheckFailed("launches differ from step to step: no number of them has half of all steps")
    if expect_fewer and counts[1].launches.mode >= counts[0].launches.mode:
        raise CheckFailed(
            f"{counts[1].launches.mode} launches a step in {other}, and {counts[0].launches.mode} in {trace}"
        )


def _counted(path: Path, annotation: str | None, device: str | None) -> StepCounts:
    started = time.monotonic()
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )
    task = bar.add_task(path.name, total=None)

    def show(done: int, size: int) -> None:
        if not bar.live.is_started and time.monotonic() - started > _PATIENCE:
            bar.start()
        bar.update(task, completed=done, total=size or None)

    try:
        read = read_trace(path, show)
    finally:
        if bar.live.is_started:
            bar.stop()
    return count_launches(read, annotation, device)
