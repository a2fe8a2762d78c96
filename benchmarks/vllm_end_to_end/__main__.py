"""vLLM itself, with the plug-in off and on: launches of a decode step, inter-token latency, tokens.

    PYTHONPATH=src python benchmarks/vllm_end_to_end --json e2e.json --markdown e2e.md

Runs ``vllm.LLM`` of vLLM 0.33 in process: a DeepSeek-V4.1 of 4 layers with its 3 DSpark draft layers, which
are 7 window groups. A build of the target makes all of them, one of the draft its own 3 again. Weights are
random and bf16, and nothing is downloaded. An arm is a process of its own, as the plug-in patches one:
``off``, ``on``, and ``fault``, whose kernel writes one wrong integer from the start.

Variants stand by for each other, as what a machine can run is not known before: ``full`` has compressed
layers with their indexer (DeepGEMM, compiled by nvcc on first use), ``window`` sliding windows alone, each
with CUDA graphs and ``-eager`` without. All start at once. The first whose arms answer is measured, and the
others are ended before. Why one failed is printed with its traceback.

Where vLLM's own dependencies are missing, its kernels are replaced in all arms alike (``stand_ins.py``):
the hyper-connections, which are TileLang's, by vLLM's PyTorch reference. That makes a step slower than a
server's, and leaves the metadata as it is.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Annotated, Any

import typer
from arm_process import Arm, begun, say
from tiny_model import DRAFTS, PROFILED_STEPS, write_configs

_ARMS = "off", "on", "fault"
_VARIANTS = "full", "window", "full-eager", "window-eager"


def main(
    variant: Annotated[list[str] | None, typer.Option(help=f"Of {', '.join(_VARIANTS)}; first wins.")] = None,
    rounds: Annotated[int, typer.Option(min=1)] = 5,
    tokens: Annotated[int, typer.Option(min=32, max=512)] = 96,
    patience: Annotated[float, typer.Option(help="Seconds until the engines must be there.")] = 70,
    json_out: Annotated[Path | None, typer.Option("--json")] = None,
    markdown_out: Annotated[Path | None, typer.Option("--markdown")] = None,
    logs: Annotated[Path | None, typer.Option(help="A folder for the arms' logs.")] = None,
) -> None:
    """Measure, print a table, and keep it."""
    variants = variant or list(_VARIANTS)
    if unknown := set(variants) - set(_VARIANTS):
        raise typer.BadParameter(f"variant is {unknown}: it must be of {_VARIANTS}")
    root = logs or Path(tempfile.mkdtemp())
    root.mkdir(parents=True, exist_ok=True)
    write_configs(root)
    arms = {(v, name): Arm(v, name, root, patience) for v in variants for name in _ARMS}
    result: dict[str, Any] = {}

    def keep() -> None:
        if json_out is not None:
            json_out.write_text(json.dumps(result, indent=1) + "\n")

    try:
        chosen = _first_ready(arms, variants, patience)
        result["stages"] = {arm.label: f"{arm.stage}{', failed' * bool(arm.error)}" for arm in arms.values()}
        keep()
        _tell_failures(arms)
        if chosen is not None:
            say(f"measuring {chosen}")
            result.update(variant=chosen, rounds=rounds)
            _end_others(arms, chosen)
            for measure in (_compare, _time, _profile):  # a profiler slows what follows it
                try:
                    measure({name: arms[chosen, name] for name in _ARMS}, result, rounds, tokens)
                    say(f"done: {measure.__name__[1:]}")
                except Exception:
                    result.setdefault("errors", []).append(traceback.format_exc())
                    say(traceback.format_exc())
                keep()  # what there is, should the next one not come back
    finally:
        for arm in arms.values():
            arm.end()
    if chosen is None:
        raise SystemExit("no variant has both arms ready")
    text = _markdown(result)
    print(text)
    if markdown_out is not None:
        markdown_out.write_text(text)
    status = result.get("status", {})
    armed = any("is armed" in line for line in status.get("on", {}).get("lines", ()))
    noticed = status.get("fault", {}).get("disarmed") is not None
    if "errors" in result or not (armed and noticed and all(result["equal"].values())):
        raise SystemExit(f"armed: {armed}, the fault noticed: {noticed}, equal: {result.get('equal')}")


def _first_ready(arms: dict[tuple[str, str], Arm], variants: list[str], patience: float) -> str | None:
    """The first variant in order with all its arms ready; without the fault's when no more will come."""
    while True:
        over = time.perf_counter() - begun > patience or all(arm.error or arm.ready for arm in arms.values())
        for names in (_ARMS, _ARMS[:2]) if over else (_ARMS,):
            for variant in variants:
                mine = [arms[variant, name] for name in names]
                if all(arm.ready for arm in mine):
                    return variant
                if not over and not any(arm.error for arm in mine):
                    break  # it may still come, and goes first
        if over:
            return None
        time.sleep(0.2)


def _tell_failures(arms: dict[tuple[str, str], Arm]) -> None:
    """Each different traceback once, and the ends of the logs of those that hang."""
    told: dict[str, str] = {}
    for arm in arms.values():
        if not arm.ready:
            what = arm.error or f"is at {arm.stage}; its log ends:\n{arm.tail(25)}"
            key = what.strip().splitlines()[-1] if arm.error else arm.label
            if key in told:
                print(f"--- {arm.label}: as {told[key]}")
            else:
                told[key] = arm.label
                print(f"--- {arm.label}: {what}")
    sys.stdout.flush()


def _end_others(arms: dict[tuple[str, str], Arm], chosen: str) -> None:
    for (variant, _), arm in arms.items():
        if variant != chosen:
            arm.end()


def _compare(arms: dict[str, Arm], result: dict[str, Any], rounds: int, tokens: int) -> None:
    """Token ids of the arms, and what the plug-in says of itself; the arm with the fault is done then."""
    found: dict[str, list[Any]] = {}
    for name, arm in arms.items():
        if arm.error:
            result.setdefault("errors", []).append(f"{name}: {arm.error}")
            continue
        # Twice: an arm that does not agree with itself proves nothing about another.
        found[name] = [[arm.ask("tokens", requests=n, tokens=tokens) for n in (1, 2)] for _ in range(2)]
        result.setdefault("status", {})[name] = arm.ask("status")
    arms["fault"].end()
    result["repeats"] = {name: first == second for name, (first, second) in found.items()}
    result["equal"] = {name: runs[0] == found["off"][0] for name, runs in found.items() if name != "off"}
    result["different tokens"] = len({token for ids in found["off"][0][1] for token in ids})
    result["token ids"] = {name: runs[0] for name, runs in found.items()}
    for name, status in result["status"].items():
        say(f"{name}: {status['counts']} {status['lines']}")


def _profile(arms: dict[str, Arm], result: dict[str, Any], rounds: int, tokens: int) -> None:
    for n in (1, 2):
        enough = PROFILED_STEPS * (DRAFTS + 1) + 32  # if all drafts were accepted
        found = {name: arms[name].ask("launches", requests=n, tokens=enough) for name in ("off", "on")}
        off, on = (found[name].pop("by name") for name in ("off", "on"))
        changed = {k: [off.get(k, 0), on.get(k, 0)] for k in {**off, **on} if off.get(k, 0) != on.get(k, 0)}
        result.setdefault("launches", {})[n] = {name: one["a step"] for name, one in found.items()}
        result.setdefault("changed", {})[n] = changed
        result.setdefault("all kernels", {})[n] = off


def _time(arms: dict[str, Arm], result: dict[str, Any], rounds: int, tokens: int) -> None:
    runs: dict[int, dict[str, list[Any]]] = {n: {"off": [], "on": []} for n in (1, 2)}
    result["latency"] = runs
    for number in range(rounds + 1):
        for n in (1, 2):
            for name in ("off", "on") if number % 2 else ("on", "off"):
                took = arms[name].ask("latency", requests=n, tokens=tokens)
                if number:  # the first warms the clocks
                    runs[n][name].append(took)
    result["latency_us"] = {
        n: {name: statistics.median(run["p50"] for run in some) for name, some in by_arm.items()}
        for n, by_arm in runs.items()
    }
    result["status after"] = {name: arms[name].ask("status") for name in ("off", "on")}


def _markdown(result: dict[str, Any]) -> str:
    status = result.get("status", {})
    machine: dict[str, Any] = next(iter(status.values()), {})
    lines = [
        f"{machine.get('machine')}, torch {machine.get('torch')}, vLLM 0.33, variant {result['variant']}: 7 "
        f"window groups, 3 of them the draft's, {result['rounds']} rounds of alternating arms, medians.",
        "",
        "| requests | launches of a decode step | inter-token latency p50, us |",
        "| ---: | ---: | ---: |",
    ]

    def cell(of: str, n: int, form: str) -> str:
        both = result.get(of, {}).get(n)
        return " -> ".join(format(both[name], form) for name in ("off", "on")) if both else ""

    lines += [f"| {n} | {cell('launches', n, '.1f')} | {cell('latency_us', n, '.0f')} |" for n in (1, 2)]
    lines += ["", f"Tokens equal to those without the plug-in: {_words(result.get('equal'))};"]
    lines += [f"the same when asked again: {_words(result.get('repeats'))}.", ""]
    lines += [f"- {name}: {line}" for name, one in status.items() for line in one["lines"]]
    fault = status.get("fault", {}).get("disarmed")
    text = "\n".join([*lines, "", f"A planted fault: {fault}", ""])
    return re.sub(r"\S*/(onelaunch-case)", r"\1", text)  # in a folder that is gone by then


def _words(found: dict[str, bool] | None) -> str:
    return ", ".join(f"{name} {'yes' if value else 'no'}" for name, value in (found or {}).items())


if __name__ == "__main__":
    typer.run(main)
