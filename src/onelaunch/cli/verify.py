"""``onelaunch verify``: random batches built by both paths, or one kept case."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.columns import Columns
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from onelaunch.cli.device import chosen_device
from onelaunch.cli.errors import CheckFailed
from onelaunch.cli.files import file_option, json_option, require_writable
from onelaunch.proof import case_file
from onelaunch.proof.compare import Mismatch
from onelaunch.proof.features import FEATURES
from onelaunch.proof.topk_cases import TOPK_FEATURES
from onelaunch.proof.verify import VerifyResult, run_steps
from onelaunch.proof.verify import verify as run_verify

_GPU_CASES, _CPU_CASES = 2_000, 120  # in Triton's interpreter a case takes 0.1 to 0.2 s
_FILE_NAME = "onelaunch-case.json"


def verify(
    cases: Annotated[
        int | None,
        typer.Option(min=1, help=f"Cases to compare. Default: {_GPU_CASES:,}, or {_CPU_CASES} on a CPU."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Decides all cases.")] = 0,
    device: Annotated[str | None, typer.Option(help="cuda or cpu. Default: a GPU if there is one.")] = None,
    case: Annotated[Path | None, file_option(help="Replay this case file instead.")] = None,
    out: Annotated[Path, typer.Option(help="File or folder for the case that differs, if one does.")] = Path(
        _FILE_NAME
    ),
    json_out: Annotated[Path | None, json_option("Also write the result to this file.")] = None,
) -> None:
    """Build random batches by both paths and compare every output, exactly."""
    console = Console()
    chosen = chosen_device(device)
    out = out / _FILE_NAME if out.is_dir() else out
    require_writable(out=out, json=json_out)
    if case is not None:
        _replay(console, case, chosen, json_out)
        return
    wanted = cases or (_GPU_CASES if chosen.type == "cuda" else _CPU_CASES)
    with Progress(
        TextColumn("cases"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=console
    ) as progress:
        bar = progress.add_task("", total=wanted)
        result = run_verify(
            wanted, seed=seed, device=chosen, progress=lambda done: progress.update(bar, completed=done)
        )
    _print(console, result)
    if result.failure is not None:
        case_file.write(out, result.failure.steps)
    if json_out is not None:
        run = {
            "device": _name(chosen),
            "seed": seed,
            "cases": result.cases,
            "builds": result.builds,
            "packs": result.packs,
            "covered": {name: result.covered[name] for name in (*FEATURES, *TOPK_FEATURES)},
        }
        _write_json(json_out, run, [] if result.failure is None else result.failure.mismatches)
    if result.failure is not None:
        found = f"the paths differ: {result.failure.mismatches[0]}"
        if not result.failure.repeats:
            raise CheckFailed(f"{found}; but not when the case was built again; it is kept in {out}")
        raise CheckFailed(f"{found}; case written, replay it with: onelaunch verify --case {out}")


def _replay(console: Console, path: Path, device: torch.device, json_out: Path | None) -> None:
    steps = case_file.read(path)
    mismatches = run_steps(steps, device)
    if json_out is not None:
        _write_json(json_out, {"device": _name(device), "case": str(path), "steps": len(steps)}, mismatches)
    for mismatch in mismatches:
        console.print(f"  {mismatch}", markup=False)
    if mismatches:
        raise CheckFailed(f"{path}: the paths differ: {mismatches[0]}")
    console.print(f"{path}: {len(steps)} step{'s' * (len(steps) != 1)}, all outputs equal", markup=False)


def _print(console: Console, result: VerifyResult) -> None:
    console.print("cases by feature:")
    entries = [f"{result.covered[name]:>6,}  {name}" for name in (*FEATURES, *TOPK_FEATURES)]
    console.print(Columns(entries, column_first=True, padding=(0, 3)), highlight=False)
    counts = f"{result.builds:,} builds and {result.packs:,} top-k packs by both paths"
    if result.failure is None:
        console.print(f"{result.cases:,} cases, {counts}: all outputs equal", highlight=False)
    else:
        console.print(f"stopped at case {result.cases:,}, after {counts}", highlight=False)


def _name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"


def _write_json(path: Path, run: dict[str, object], mismatches: Sequence[Mismatch]) -> None:
    kept = {**run, "mismatches": [str(mismatch) for mismatch in mismatches]}
    path.write_text(json.dumps(kept, indent=2) + "\n")
