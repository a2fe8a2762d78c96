"""``onelaunch demo``: the decode steps of a serving trace, built by both paths."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from onelaunch.cli.device import chosen_device
from onelaunch.cli.errors import CheckFailed
from onelaunch.cli.files import file_option, json_option, require_writable
from onelaunch.proof.demo import DemoResult, run_demo
from onelaunch.proof.engine_demo import PROMPTS, run_arms
from onelaunch.traffic import generated_trace, read_trace

_GENERATED_REQUESTS = 2_000
# The interpreter takes about a second for a step of 4 requests: this is under a minute.
_CPU_STEPS, _CPU_MAX_BATCH, _GPU_MAX_BATCH = 40, 4, 64
_CPU_TOKENS, _GPU_TOKENS = 96, 256  # of each request at most


def demo(
    trace: Annotated[
        Path | None,
        file_option(
            help="CSV with TIMESTAMP,ContextTokens,GeneratedTokens (the Azure LLM traces). "
            "Default: a generated trace of the same form."
        ),
    ] = None,
    acceptance_length: Annotated[
        float, typer.Option(help="Mean tokens that a verified 6-token draft yields, from 1 to 7.")
    ] = 3.87,
    steps: Annotated[
        int | None,
        typer.Option(min=1, help=f"Decode steps at most. Default: all on a GPU, {_CPU_STEPS} on a CPU."),
    ] = None,
    max_batch: Annotated[
        int | None,
        typer.Option(
            min=1,
            help=f"Requests in a step at most. Default: {_GPU_MAX_BATCH}, or {_CPU_MAX_BATCH} on a CPU.",
        ),
    ] = None,
    block_size: Annotated[int, typer.Option(min=1, help="Tokens of a KV-cache block.")] = 64,
    step_ms: Annotated[
        float, typer.Option(help="Simulated time of a decode step: more makes more requests overlap.")
    ] = 50.0,
    seed: Annotated[int, typer.Option(min=0, help="Of the acceptance draws and the generated trace.")] = 0,
    device: Annotated[str | None, typer.Option(help="cuda or cpu. Default: a GPU if there is one.")] = None,
    engine: Annotated[
        bool, typer.Option("--engine/--no-engine", help="Also let the small engine generate by both paths.")
    ] = True,
    json_out: Annotated[Path | None, json_option("Also write the result to this file.")] = None,
) -> None:
    """Build every decode step of a serving trace by both paths: same metadata, fewer launches."""
    console = Console()
    chosen = chosen_device(device)
    require_writable(json=json_out)
    on_gpu = chosen.type == "cuda"
    if trace is None:
        requests = generated_trace(seed, _GENERATED_REQUESTS)
        source = f"generated trace, {len(requests):,} requests, seed {seed}"
    else:
        requests = read_trace(trace)
        source = f"{trace.name}, {len(requests):,} requests"
    where = "the GPU" if on_gpu else "the CPU, the kernel in Triton's interpreter"
    console.print(f"{source}; on {where}")
    with Progress(
        TextColumn("decode steps"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn(), console=console
    ) as progress:
        bar = progress.add_task("", total=1.0)
        result = run_demo(
            requests,
            device=chosen,
            acceptance_length=acceptance_length,
            block_size=block_size,
            max_batch=max_batch or (_GPU_MAX_BATCH if on_gpu else _CPU_MAX_BATCH),
            step_s=step_ms / 1000,
            steps=steps or (None if on_gpu else _CPU_STEPS),
            seed=seed,
            progress=lambda share: progress.update(bar, completed=share),
        )
    _print(console, result)
    if json_out is not None:
        options = {"acceptance_length": acceptance_length, "block_size": block_size, "step_ms": step_ms}
        kept = {"source": source, "seed": seed, **options, **result.as_json()}
        json_out.write_text(json.dumps(kept, indent=2) + "\n")
    same_tokens = not engine or _run_engine(console, chosen)
    if result.differences:
        found = ", ".join(f"{output} (first in step {step})" for output, step in result.differences.items())
        raise CheckFailed(f"the one-launch build differs from the usual build: {found}")
    if not same_tokens:
        raise CheckFailed("the engine's tokens differ between the usual build and the one launch")


def _run_engine(console: Console, device: torch.device) -> bool:
    """Both arms of the engine; whether their tokens are the same."""
    missing = [name for name in ("tokenizers", "safetensors") if importlib.util.find_spec(name) is None]
    if missing:
        said = f"the engine was not run: {missing[0]} is missing (pip install onelaunch[engine])"
        console.print(said, markup=False)
        return True
    with console.status("the engine, by both paths"):
        name, (usual, one) = run_arms(device, _GPU_TOKENS if device.type == "cuda" else _CPU_TOKENS)
    same = usual.token_ids == one.token_ids
    for prompt, text in zip(PROMPTS, one.texts, strict=True):
        console.print(Text(prompt), Text(text.rstrip(), style="bold"), sep="")
        console.print()
    count = sum(map(len, one.token_ids))
    table = Table(
        title=f"the engine (model {name}): {count} tokens of {len(one.token_ids)} requests, with drafts",
        caption=None
        if device.type == "cuda"
        else "On a CPU the one launch runs in Triton's interpreter: its time says nothing.",
        title_justify="left",
        caption_justify="left",
    )
    table.add_column("")
    table.add_column("usual build", justify="right")
    table.add_column("onelaunch", justify="right")
    arms = usual, one
    table.add_row("metadata launches of a step", *(str(arm.launches) for arm in arms))
    table.add_row("mean acceptance length", *(f"{arm.acceptance_length:.2f}" for arm in arms))
    table.add_row("a step, median", *(f"{arm.step_ms:.1f} ms" for arm in arms))
    table.add_row("inter-token latency", *(f"{arm.token_ms:.1f} ms" for arm in arms))
    console.print(table)
    if same:
        console.print("all tokens equal")
    return same


def _print(console: Console, result: DemoResult) -> None:
    usual, one = result.launches_per_step["reference"], result.launches_per_step["kernel"]
    table = Table(
        title="launches per decode step, 4 target and 3 draft groups",
        # A ratio means nothing without its base.
        caption="The usual build is AMD's, dense and ragged. NVIDIA engines build the dense form alone: "
        "compare, fill_tail and window_indices.",
        title_justify="left",
        caption_justify="left",
    )
    table.add_column("kernel")
    table.add_column("usual build", justify="right")
    table.add_column("onelaunch", justify="right")
    for kernel in dict.fromkeys([*usual, *one]):
        table.add_row(kernel, *(str(path[kernel]) if kernel in path else "-" for path in (usual, one)))
    table.add_section()
    table.add_row("all", str(sum(usual.values())), str(sum(one.values())), style="bold")
    totals = [sum(result.launches[path].values()) for path in ("reference", "kernel")]
    table.add_row(f"all {result.steps:,} steps", *(f"{total:,}" for total in totals))
    for label, times in (("host time, median", result.host_us), ("device time, median", result.device_us)):
        if times is not None:
            table.add_row(label, f"{times['reference']:.1f} us", f"{times['kernel']:.1f} us")
    console.print(table)
    console.print(
        f"{result.steps:,} decode steps, {result.rows:,} rows ({result.padded_rows:,} of them padding), "
        f"{result.tokens:,} tokens, {result.requests_served:,} of {result.requests:,} requests served, "
        f"mean acceptance length {result.mean_acceptance_length:.2f}"
    )
    if not result.differences:
        console.print(f"all outputs equal over {result.builds:,} builds")
