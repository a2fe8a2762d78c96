"""``onelaunch ab``: two arms compared under load, round by round."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from onelaunch.cli.errors import CheckFailed
from onelaunch.cli.files import file_argument, json_option, require_writable
from onelaunch.cli.resumable import kept_in, resumable
from onelaunch.proof.ab.plan import read_plan
from onelaunch.proof.ab.report import excludes_slowdown, headline, make_report, markdown
from onelaunch.proof.ab.run import Comparison, Progress
from onelaunch.proof.ab.state import State
from onelaunch.proof.extras import require
from onelaunch.proof.processes.lock import locked


def ab(
    plan_file: Annotated[Path, file_argument("PLAN.toml", "The comparison.")],
    out: Annotated[
        Path | None,
        typer.Option(
            file_okay=False,
            help="Folder for state.json, logs and the report. Default: PLAN.ab, beside the plan.",
        ),
    ] = None,
    expect_faster: Annotated[
        bool, typer.Option("--expect-faster", help="Fail unless change is found faster at every point.")
    ] = False,
    max_slowdown: Annotated[
        float | None,
        typer.Option(min=0, help="Fail unless every interval ends below this: how many percent slower."),
    ] = None,
    json_out: Annotated[Path | None, json_option("Also write report.json to this file.")] = None,
) -> None:
    """Compare two servers under load: rounds with swapped halves, intervals, and what is inside the noise.

    Goes on where it was stopped; a finished comparison is shown again.
    """
    require("httpx", "scipy")
    require_writable(json=json_out)
    plan = read_plan(plan_file)
    folder = plan_file.with_suffix(".ab") if out is None else out
    folder.mkdir(parents=True, exist_ok=True)
    console = Console(stderr=True)
    with locked(folder):
        state = State(folder / "state.json", plan)
        before = len(state.points)
        with _bar(console) as bar:
            task = bar.add_task("", total=None)

            def show(now: Progress) -> None:
                bar.update(task, description=now.what, completed=now.done, total=now.total)

            comparison = Comparison(plan, state, folder / "logs", show)
            if before:
                console.print(
                    f"{before} of {comparison.num_points} points are kept from before", highlight=False
                )
            with resumable(
                bar, lambda: _saved(state, comparison), stopped="stopped: no server is left running"
            ):
                comparison.run()
        report = make_report(plan, state.points)
        for path in (folder / "report.json", json_out):
            if path is not None:
                path.write_text(json.dumps(report, indent=1) + "\n")
        (folder / "report.md").write_text(markdown(report))
    print(markdown(report))
    console.print(f"{folder}: report.md, report.json, logs", markup=False, highlight=False)
    points = report["points"]
    if expect_faster and not all(point["verdict"] == "faster" for point in points):
        raise CheckFailed(f"change is not found faster at every point: {headline(report)}")
    if max_slowdown is not None and not all(excludes_slowdown(point, max_slowdown) for point in points):
        raise CheckFailed(f"change may be more than {max_slowdown:g}% slower: {headline(report)}")


def _saved(state: State, comparison: Comparison) -> str:
    if not state.points:
        return "no point was finished, so nothing is kept"
    return kept_in(state.path, f"{len(state.points)} of {comparison.num_points} points")


def _bar(console: Console) -> Bar:
    return Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        refresh_per_second=2,  # drawing takes time from the built-in client's streams
    )
