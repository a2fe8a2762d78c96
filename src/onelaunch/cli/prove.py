"""``onelaunch prove``: a plan of claims, their evidence gathered, and one report."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from onelaunch.cli.errors import CheckFailed
from onelaunch.cli.files import file_argument
from onelaunch.cli.resumable import kept_in, resumable
from onelaunch.proof.extras import require
from onelaunch.proof.processes.lock import locked
from onelaunch.proof.prove import report
from onelaunch.proof.prove.findings import find
from onelaunch.proof.prove.plan import ProofPlan, read_plan
from onelaunch.proof.prove.plots import draw
from onelaunch.proof.prove.run import Gathering
from onelaunch.proof.prove.state import ProofState


def prove(
    plan_file: Annotated[Path, file_argument("PLAN.toml", "What to prove.")],
    out: Annotated[
        Path | None,
        typer.Option(file_okay=False, help="Folder for results, logs and the report. Default: PLAN.proof."),
    ] = None,
    again: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Gather this evidence again, and what reads its result."),
    ] = None,
) -> None:
    """Gather the evidence of a plan and write one report: Markdown with pictures, and an HTML page.

    Goes on where it was stopped: evidence that was gathered with the same commands is kept. Ends with 1 when
    a claim does not hold.
    """
    require("httpx", "jinja2", "markdown_it", "matplotlib")
    plan = read_plan(plan_file)
    for name in again or ():
        if name not in plan.evidence:
            raise ValueError(f"again is {name!r}: it must be one of {', '.join(plan.evidence)}")
    folder = plan_file.with_suffix(".proof") if out is None else out
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        state = ProofState(folder / "state.json", plan)
        for name in again or ():
            state.forget(name)
        _gather(plan, state, folder)
        repeat = ["onelaunch", "prove", str(plan_file), *(["--out", str(out)] if out is not None else [])]
        failed = _report(plan, state, folder, shlex.join(repeat))
    if failed:
        raise CheckFailed(f"{len(failed)} of {len(plan.claims)} claims do not hold: {failed[0]}")


def _gather(plan: ProofPlan, state: ProofState, folder: Path) -> None:
    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console, refresh_per_second=2) as progress:
        bar = progress.add_task("", total=len(plan.evidence), completed=len(state.gathered))

        def show(now: str) -> None:
            progress.update(bar, description=now, completed=len(state.gathered))

        if state.gathered:
            before = f"kept from before: {', '.join(state.gathered)}"
            console.print(before, highlight=False, markup=False)
        with resumable(progress, lambda: _kept(plan, state), stopped="stopped: nothing is left running"):
            Gathering(plan, state, folder, show).run()


def _kept(plan: ProofPlan, state: ProofState) -> str:
    if not state.gathered:
        return "nothing was gathered"
    return kept_in(state.path.parent, f"{len(state.gathered)} of {len(plan.evidence)} pieces of evidence")


def _report(plan: ProofPlan, state: ProofState, folder: Path, repeat: str) -> list[str]:
    """Write both forms; the claims that do not hold."""
    findings = {name: find(state.gathered[name], folder) for name in plan.evidence}
    pictures = {}
    for name, finding in findings.items():
        if draw(finding.tool, finding.result, folder / f"{name}.png"):
            pictures[name] = f"{name}.png"
    text = report.markdown(plan, findings, pictures, repeat)
    (folder / "report.md").write_text(text)
    (folder / "report.html").write_text(report.page(plan.title, text, folder))
    console = Console()
    holds = report.verdicts(plan, findings)
    for claim, held in zip(plan.claims, holds, strict=True):
        console.print(
            f"{'holds         ' if held else 'DOES NOT HOLD '} {claim.says}", markup=False, highlight=False
        )
        for name in claim.evidence:
            console.print(f"                 {findings[name].says}", markup=False, highlight=False)
    console.print(f"{folder}: report.md, report.html", markup=False, highlight=False)
    return [claim.says for claim, held in zip(plan.claims, holds, strict=True) if not held]
