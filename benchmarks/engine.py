"""Time decode steps of the engine in both arms, on one GPU, in one process, alternating.

    python benchmarks/engine.py --json engine.json --markdown engine.md

Drafts are accepted at a given rate ("synthetic"), as random weights would accept none: every arm yields the
same number of tokens a step, and the metadata, the readers and the steps are what they are with a real model.
"""

from __future__ import annotations

import json
import statistics
import time
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from onelaunch import __version__
from onelaunch.engine import LLM, SamplingParams

ARMS = {
    "usual, dense": {"monokernel": False, "attention": "dense"},
    "one launch, dense": {"monokernel": True, "attention": "dense"},
    "usual, ragged": {"monokernel": False, "attention": "ragged"},
    "one launch, ragged": {"monokernel": True, "attention": "ragged"},
}
_WARM_STEPS = 6


def main(
    preset: Annotated[str, typer.Option(help="Shape of the model.")] = "bench",
    concurrency: Annotated[list[int] | None, typer.Option(help="Requests at once. Default: 1 and 2.")] = None,
    rounds: Annotated[int, typer.Option(min=2, help="Runs of each arm at each concurrency.")] = 8,
    steps: Annotated[int, typer.Option(min=2, help="Timed steps of a run.")] = 100,
    prompt_tokens: Annotated[int, typer.Option(min=1)] = 1024,
    acceptance_length: Annotated[float, typer.Option(help="Mean tokens of a step and request.")] = 3.87,
    json_out: Annotated[Path | None, typer.Option("--json", help="Write the result here.")] = None,
    markdown_out: Annotated[Path | None, typer.Option("--markdown", help="Write the table here.")] = None,
) -> None:
    """Measure, print a table, and keep it."""
    points = concurrency or [1, 2]
    spec = {"rejection_sample_method": "synthetic", "synthetic_acceptance_length": acceptance_length}
    options: dict[str, Any] = {
        "preset": preset,
        "speculative": json.dumps(spec),
        "max_num_seqs": max(points),
        "enable_prefix_caching": False,
    }
    arms = {name: LLM(**options, **arm) for name, arm in ARMS.items()}
    runs: dict[str, dict[int, list[dict[str, float]]]] = {name: {n: [] for n in points} for name in arms}
    for point in points:
        for number in range(rounds):
            for name in sorted(arms, reverse=bool(number % 2)):
                runs[name][point].append(_run(arms[name], point, steps, prompt_tokens))
    device = arms["usual, dense"].core.config.device
    result = {
        "command": f"python benchmarks/engine.py --preset {preset} --rounds {rounds} --steps {steps}",
        "machine": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "versions": {"torch": torch.__version__, "onelaunch": __version__},
        "preset": preset,
        "prompt_tokens": prompt_tokens,
        "acceptance_length": acceptance_length,
        "launches": {name: llm.core.launches for name, llm in arms.items()},
        "runs": runs,
    }
    table = _markdown(result)
    print(table)
    if json_out is not None:
        json_out.write_text(json.dumps(result, indent=1) + "\n")
    if markdown_out is not None:
        markdown_out.write_text(table)


def _run(llm: LLM, concurrency: int, steps: int, prompt_tokens: int) -> dict[str, float]:
    """One run: medians over its steps, in microseconds."""
    core, generator = llm.core, torch.Generator().manual_seed(concurrency)
    wanted = SamplingParams(max_tokens=steps * 8 + 64, temperature=0, ignore_eos=True, seed=1)
    vocabulary = min(core.config.model.vocab_size, 256)
    for i in range(concurrency):
        core.add(str(i), torch.randint(vocabulary, (prompt_tokens,), generator=generator).tolist(), wanted)
    for _ in range(_WARM_STEPS):
        core.step()
    ends, num_tokens = [time.perf_counter()], 0
    for _ in range(steps):
        num_tokens += sum(len(output.token_ids) for output in core.step())
        ends.append(time.perf_counter())
    for i in range(concurrency):
        core.abort(str(i))
    seconds = [end - begun for begun, end in pairwise(ends)]
    per_request = num_tokens / steps / concurrency
    step = statistics.median(seconds) * 1e6
    return {"step_us": step, "inter_token_us": step / per_request}


def _markdown(result: dict[str, Any]) -> str:
    versions = result["versions"]
    lines = [
        f"{result['machine']}; torch {versions['torch']}, onelaunch {versions['onelaunch']}. "
        f"Preset {result['preset']}, prompts of {result['prompt_tokens']} tokens, acceptance length "
        f"{result['acceptance_length']}. Medians of runs (their range), us.",
        "",
        "| requests | arm | metadata launches | step | inter-token latency | of usual |",
        "| ---: | --- | ---: | ---: | ---: | ---: |",
    ]

    def step(arm: str, point: int) -> list[float]:
        return [run["step_us"] for run in result["runs"][arm][point]]

    for point in next(iter(result["runs"].values())):
        for name, runs in result["runs"].items():
            steps = step(name, point)
            usual = statistics.median(step("usual, " + name.split(", ")[1], point))
            median = statistics.median(steps)
            inter_token = statistics.median(run["inter_token_us"] for run in runs[point])
            lines.append(
                f"| {point} | {name} | {sum(result['launches'][name].values())} "
                f"| {median:,.0f} ({min(steps):,.0f}-{max(steps):,.0f}) "
                f"| {inter_token:,.0f} | {median / usual:.3f} |"
            )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    typer.run(main)
