"""``onelaunch doctor``: what was found on this machine, what the gate makes of it, and a short self-check."""

from __future__ import annotations

import dataclasses
import json
import time
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from onelaunch import WindowGroup
from onelaunch.cli.errors import CheckFailed
from onelaunch.gate import decide
from onelaunch.machine import device_name, kernels, versions
from onelaunch.platform import Platform, detect

_SELF_CHECK_SECONDS = 1.0


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
    vllm: Annotated[bool, typer.Option("--vllm", help="Show what the vLLM plug-in finds here, too.")] = False,
) -> None:
    """Show the platform, the gate's decision and why, versions, and check both builds against each other."""
    platform = detect()
    device = torch.device("cpu" if platform.vendor == "cpu" else "cuda")
    check = _self_check(device)
    findings: dict[str, Any] = {
        "platform": {**dataclasses.asdict(platform), "device": device_name(platform)},
        "gate": {
            "flag on": dataclasses.asdict(decide(True, platform)),
            "flag off": dataclasses.asdict(decide(False, platform)),
        },
        "kernels": kernels(),
        "versions": versions(platform),
        "self-check": check,
    }
    if vllm:
        from onelaunch.vllm_plugin.doctor import findings as vllm_findings

        findings["vllm"] = vllm_findings(platform.vendor)
    if as_json:
        print(json.dumps(findings, indent=2))
    else:
        _print(findings)
    if check["failures"]:
        raise CheckFailed(f"the self-check failed: {check['failures'][0]}")


def _self_check(device: torch.device) -> dict[str, Any]:
    """Small random batches by both paths for about a second. Whatever goes wrong in them is a finding."""
    start = time.perf_counter()
    cases = 0
    failures: list[str] = []
    try:
        from onelaunch.proof.random_cases import Setup, random_case
        from onelaunch.proof.verify import run_case

        # One setup, so that on a GPU one kernel is compiled: both kinds of group, small for the interpreter.
        target = WindowGroup("swa.0", window=128, block_size=64)
        draft = WindowGroup("draft.0", window=128, block_size=64, causal=False, draft_tokens=6)
        setup = Setup((target, draft), max_tokens=24, max_requests=8)
        while not failures and (cases == 0 or time.perf_counter() - start < _SELF_CHECK_SECONDS):
            mismatches = run_case(random_case(cases, setup), device)
            failures += [f"seed {cases}: {mismatch}" for mismatch in mismatches]
            cases += 1
    except Exception as error:
        failures.append(f"{type(error).__name__}: {error}")
    return {"batches": cases, "seconds": round(time.perf_counter() - start, 2), "failures": failures}


def _vllm_rows(found: dict[str, Any]) -> list[tuple[str, str]]:
    answer = "supported" if found["supported"] else "not supported"
    return [
        ("vllm", f"{found['version'] or 'none'}: {answer}: {found['reason']}"),
        ("vllm, plug-in", "asked for" if found["flag"] else "not asked for: set ONELAUNCH=1"),
        *(("vllm, patches", name) for name in found["would patch"]),
    ]


def _print(findings: dict[str, Any]) -> None:
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    found = findings["platform"]
    table.add_row("platform", escape(f"{Platform(found['vendor'], found['arch'])} ({found['device']})"))
    for flag, decision in findings["gate"].items():
        answer = "one launch" if decision["enabled"] else "usual build"
        table.add_row(f"gate, {flag}", escape(f"{answer}: {decision['reason']}"))
    table.add_row("kernels", escape(findings["kernels"]))
    for name, installed in findings["versions"].items():
        if installed is not None:
            table.add_row(name, escape(installed))
    if "vllm" in findings:
        for name, answer in _vllm_rows(findings["vllm"]):
            table.add_row(name, escape(answer))
    check = findings["self-check"]
    outcome = "[red]failed[/red]" if check["failures"] else "[green]passed[/green]"
    batches = f"{check['batches']} batches by both paths in {check['seconds']} s"
    table.add_row("self-check", f"{outcome}: {batches}")
    for failure in check["failures"]:
        table.add_row("", escape(failure))
    Console().print(table)
