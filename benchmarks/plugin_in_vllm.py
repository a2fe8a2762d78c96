"""vLLM's own window builds against the plug-in's: launches, device time and host time, on one GPU.

    PYTHONPATH=src:tests python benchmarks/plugin_in_vllm.py --json plugin.json --markdown plugin.md

Needs vLLM 0.33 as its wheel unpacks, and what importing its builders needs
(tests/vllm_plugin/contract/requirements.txt). On a GPU these ask its compiled extensions on import,
which torch 2.11 loads too, and call nothing of them. Builders are made as the contract
tests make them, and built through the model runner's own ``build_attn_metadata``: 4 target groups, then 3
draft groups. Before anything is timed every field is compared, and the plug-in must have armed itself;
afterwards a fault is planted, and it must disarm with vLLM's values in place. Without a GPU it counts and
compares alone.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

os.environ["ONELAUNCH"] = "1"
os.environ["ONELAUNCH_CASE_DIR"] = tempfile.mkdtemp()
if not torch.cuda.is_available():
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    os.environ.setdefault("TRITON_INTERPRET", "1")

from vllm_end_to_end.stand_ins import plant_a_fault

import onelaunch.vllm_plugin as plugin
from onelaunch.launches import counting
from onelaunch.proof.graphs import elapsed_us, record
from onelaunch.vllm_plugin import patches
from vllm_plugin.contract import engine as contract

_GROUPS = 4, 3  # target, draft
_STEPS_PER_GRAPH = 20
_BUSY_CYCLES = 40_000_000  # some 20 ms: the host only enqueues behind them
_EAGER_STEPS = 4
CLASSES = {
    "base (V4)": contract.BASE,
    "V4.1": contract.V41,
    "FlashMLA": contract.FLASHMLA,
    "FlashInfer": contract.FLASHINFER,
    "ROCm (its code, on this GPU)": contract.ROCM,
}
ON_GPU = contract.DEVICE.type == "cuda"


class Side:
    """A target's and a draft's builders, and the step that builds both."""

    def __init__(self, cls: type, batch: Any) -> None:
        target, draft = _GROUPS
        self.engines = [contract.Engine([cls] * target), contract.Engine([cls] * draft, causal=False)]
        self.batch = batch

    def step(self) -> list[Any]:
        return [metadata for engine in self.engines for metadata in engine.build(self.batch)]


def main(
    rows: Annotated[list[int] | None, typer.Option(help="Default: 7, 14 and 49.")] = None,
    rounds: Annotated[int, typer.Option(min=2)] = 60,
    json_out: Annotated[Path | None, typer.Option("--json")] = None,
    markdown_out: Annotated[Path | None, typer.Option("--markdown")] = None,
) -> None:
    """Measure, print a table, and keep it."""
    results = []
    for name, cls in CLASSES.items():
        for count in rows or [7, 14, 49]:
            results.append({"builder": name, "rows": count, **_measured(cls, count, rounds)})
            print(results[-1], flush=True)
    machine = torch.cuda.get_device_name() if ON_GPU else "cpu"
    result = {"machine": machine, "torch": torch.__version__, "results": results, "planted fault": _fault()}
    print(_markdown(result))
    if json_out is not None:
        json_out.write_text(json.dumps(result, indent=1) + "\n")
    if markdown_out is not None:
        markdown_out.write_text(_markdown(result))


def _measured(cls: type, rows: int, rounds: int) -> dict[str, Any]:
    batch = contract.Batch([7] * (rows // 7), groups=max(_GROUPS), missing_slots=False)
    sides = {"vllm": Side(cls, batch), "plugin": Side(cls, batch)}
    patches.remove()
    expected = sides["vllm"].step()
    with _patched():
        for _ in range(12):  # rehearsed, then verified, then armed
            got = sides["plugin"].step()
        contract.assert_same(expected, got)
        status = plugin.status()
        if status.disarmed is not None or not status.counts.get("kernel"):
            raise SystemExit(f"{cls.__name__}: the plug-in is not armed: {status}")
        with counting() as counted:
            sides["plugin"].step()
    found: dict[str, Any] = {"own launches": dict(counted)}
    if not ON_GPU:
        return found
    graphs, launches = {}, {}
    for name, side in sides.items():
        with _patched(on=name == "plugin"):
            launches[name] = _device_events(side.step)
            graphs[name] = record(lambda side=side: side.step(), _STEPS_PER_GRAPH)
    device: dict[str, list[float]] = {name: [] for name in sides}
    host: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(rounds + 1):
        for name, side in sides.items():
            elapsed = elapsed_us(graphs[name].replay) / _STEPS_PER_GRAPH
            with _patched(on=name == "plugin"):
                torch.cuda._sleep(_BUSY_CYCLES)
                begun = time.perf_counter_ns()
                for _ in range(_EAGER_STEPS):
                    side.step()
                enqueued = (time.perf_counter_ns() - begun) / 1000 / _EAGER_STEPS
                torch.cuda.synchronize()
            if number:
                device[name].append(elapsed)
                host[name].append(enqueued)
    contract.assert_same(sides["vllm"].step(), got)  # what the replays left
    return {**found, "launches": launches, "device_us": _spreads(device), "host_us": _spreads(host)}


class _patched:
    """vLLM with the plug-in's patches inside the block, without them after it."""

    def __init__(self, *, on: bool = True) -> None:
        self._on = on

    def __enter__(self) -> None:
        patches.remove()
        if self._on:
            plugin.register()

    def __exit__(self, *_: object) -> None:
        patches.remove()


def _device_events(run: Callable[[], object]) -> int:
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    run()
    with torch.profiler.profile(activities=activities) as profile:
        run()
        torch.cuda.synchronize()
    return sum(event.device_type.name == "CUDA" for event in profile.events())


def _spreads(times: dict[str, list[float]]) -> dict[str, dict[str, float]]:
    return {
        name: dict(zip(("p10", "median", "p90"), statistics.quantiles(some, n=10)[::4], strict=True))
        for name, some in times.items()
    }


def _fault() -> str:
    """A kernel that writes one wrong integer from the start: vLLM's values must stay."""
    batch = contract.Batch([7], groups=max(_GROUPS), missing_slots=False)
    usual, faulty = Side(contract.V41, batch), Side(contract.V41, batch)
    patches.remove()
    expected = usual.step()
    restore = plant_a_fault()
    try:
        with _patched():
            for _ in range(3):
                contract.assert_same(expected, faulty.step())
            reason = plugin.status().disarmed
    finally:
        restore()
    if reason is None:
        raise SystemExit("a planted fault was not noticed")
    return reason


def _markdown(result: dict[str, Any]) -> str:
    lines = [
        f"{result['machine']}, torch {result['torch']}. A step's builds: 4 target and 3 draft groups.",
        "",
        "| builder | rows | launches | device, us | host, us |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for one in result["results"]:
        cells = [one["builder"], str(one["rows"])]
        if "launches" in one:
            cells.append(f"{one['launches']['vllm']} -> {one['launches']['plugin']}")
            for what in ("device_us", "host_us"):
                cells.append(f"{one[what]['vllm']['median']:.1f} -> {one[what]['plugin']['median']:.1f}")
        else:
            cells += [str(sum(one["own launches"].values())), "", ""]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", f"A planted fault: {result['planted fault']}", ""])


if __name__ == "__main__":
    typer.run(main)
