"""``onelaunch generate``: complete prompts without a server."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from onelaunch.cli import engine_options as options
from onelaunch.cli.engine_options import engine_config
from onelaunch.cli.errors import CheckFailed
from onelaunch.cli.files import file_option, json_option, require_writable

if TYPE_CHECKING:
    from onelaunch.engine.core import EngineCore
    from onelaunch.engine.llm import Completion


def generate(
    prompt: Annotated[list[str], typer.Option(help="May be given more than once.")],
    max_tokens: Annotated[int, typer.Option(help="Tokens to generate for each prompt.")] = 32,
    temperature: Annotated[float, typer.Option(help="0 is greedy.")] = 0.0,
    top_p: Annotated[float, typer.Option(help="Nucleus.")] = 1.0,
    top_k: Annotated[int, typer.Option(help="Candidates kept; 0 keeps all.")] = 0,
    stop: Annotated[
        list[str] | None, typer.Option(help="Text that ends an output; may be given more than once.")
    ] = None,
    ignore_eos: Annotated[bool, typer.Option("--ignore-eos", help="Go on after the end of text.")] = False,
    preset: options.Preset = None,
    model: options.Model = None,
    device: options.Device = None,
    monokernel: options.Monokernel = None,
    attention: options.Attention = None,
    speculative_config: options.SpeculativeConfig = None,
    no_speculative: options.NoSpeculative = False,
    max_model_len: options.MaxModelLen = None,
    max_num_seqs: options.MaxNumSeqs = 32,
    max_num_batched_tokens: options.MaxNumBatchedTokens = None,
    block_size: options.BlockSize = 64,
    num_blocks: options.NumBlocks = None,
    enable_prefix_caching: options.EnablePrefixCaching = True,
    enforce_eager: options.EnforceEager = False,
    seed: options.Seed = 0,
    max_launches: Annotated[
        int | None, typer.Option(min=1, help="Fail when a decode step's metadata takes more launches.")
    ] = None,
    against: Annotated[
        Path | None, file_option(help="An earlier --json: fail unless all tokens are its.")
    ] = None,
    profile: Annotated[
        Path | None,
        typer.Option(metavar="TRACE", help="Record a trace of torch.profiler, for onelaunch launches."),
    ] = None,
    json_out: Annotated[Path | None, json_option("Also write tokens and numbers to this file.")] = None,
) -> None:
    """Complete prompts offline; show the text, and what it took."""
    require_writable(json=json_out, profile=profile)
    before = None if against is None else _tokens_of(against)
    config = engine_config(
        preset=preset,
        model=model,
        device=device,
        monokernel=monokernel,
        attention=attention,
        speculative_config=speculative_config,
        no_speculative=no_speculative,
        max_model_len=max_model_len,
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=max_num_batched_tokens,
        block_size=block_size,
        num_blocks=num_blocks,
        enable_prefix_caching=enable_prefix_caching,
        enforce_eager=enforce_eager,
        seed=seed,
    )
    from onelaunch.engine import LLM, SamplingParams

    params = SamplingParams(
        max_tokens=max_tokens,
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
        stop=tuple(stop or ()),
        ignore_eos=ignore_eos,
    )
    console = Console(stderr=True)
    with console.status(f"loading {config.model_name}"):
        llm = LLM(config)
    ends = [time.perf_counter()]
    columns = (TextColumn("tokens"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    progress = Progress(*columns, console=console, transient=True)
    task = progress.add_task("tokens", total=len(prompt) * max_tokens)

    profiler = None if profile is None else _profiler()

    def after_step(num_tokens: int) -> None:
        if profiler is not None:
            profiler.step()
        progress.start()  # only now: an error before the first step is one line
        ends.append(time.perf_counter())
        progress.advance(task, num_tokens)

    try:
        with nullcontext() if profiler is None else profiler:
            completions = llm.generate(prompt, params, after_step=after_step)
    finally:
        if len(ends) > 1:
            progress.stop()
    for given, completion in zip(prompt, completions, strict=True):
        print(given + "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in completion.text))
    seconds = [end - begun for begun, end in pairwise(ends)]
    if profiler is not None:
        profiler.export_chrome_trace(str(profile))
    result = _result(llm.core, seconds, completions)
    print(_summary(result))
    same = True
    if before is not None:
        same = result["same_tokens"] = before == result["token_ids"]
    if json_out is not None:
        json_out.write_text(json.dumps(result) + "\n")
    if max_launches is not None and result["launches_per_step"] > max_launches:
        raise CheckFailed(f"{result['launches_per_step']} metadata launches a step: at most {max_launches}")
    if not same:
        raise CheckFailed(f"other tokens than in {against}")


def _profiler() -> Any:
    """Of host and device; its ``step`` ends an annotation that ``onelaunch launches`` finds."""
    import torch
    from torch.profiler import ProfilerAction, ProfilerActivity

    on_gpu = [ProfilerActivity.CUDA] if torch.cuda.is_available() else []
    # Without a schedule its steps are not annotated.
    return torch.profiler.profile(
        activities=[ProfilerActivity.CPU, *on_gpu], schedule=lambda _: ProfilerAction.RECORD
    )


def _tokens_of(path: Path) -> list[list[int]]:
    try:
        tokens: list[list[int]] = json.loads(path.read_text())["token_ids"]
        return tokens
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"against is {path}: it must be a result of onelaunch generate") from None


def _result(core: EngineCore, seconds: list[float], completions: Sequence[Completion]) -> dict[str, Any]:
    stats = core.stats
    return {
        "tokens": sum(len(one.token_ids) for one in completions),
        "steps": len(seconds),
        "seconds": sum(seconds),
        "median_step_ms": 1e3 * statistics.median(seconds),
        "acceptance_length": 1 + stats.num_accepted_tokens / stats.num_drafts if stats.num_drafts else None,
        "launches_per_step": stats.launches_per_step,
        "launches": core.launches,
        "metadata_path": core.metadata_path[0],
        "token_ids": [list(one.token_ids) for one in completions],
    }


def _summary(result: Mapping[str, Any]) -> str:
    parts = [f"{result['tokens']} tokens in {result['seconds']:.2f} s, {result['steps']} steps"]
    parts.append(f"{result['median_step_ms']:.1f} ms a step (median)")
    if result["acceptance_length"] is not None:
        parts.append(f"acceptance length {result['acceptance_length']:.2f}")
    parts.append(f"{result['launches_per_step']} metadata launches a step ({result['metadata_path']})")
    return "; ".join(parts)
