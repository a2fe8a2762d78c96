"""``onelaunch generate``: complete prompts without a server."""

from __future__ import annotations

import statistics
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from onelaunch.cli import engine_options as options
from onelaunch.cli.engine_options import engine_config

if TYPE_CHECKING:
    from onelaunch.engine.core import EngineCore


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
) -> None:
    """Complete prompts offline; show the text, and what it took."""
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

    def after_step(num_tokens: int) -> None:
        progress.start()  # only now: an error before the first step is one line
        ends.append(time.perf_counter())
        progress.advance(task, num_tokens)

    try:
        completions = llm.generate(prompt, params, after_step=after_step)
    finally:
        if len(ends) > 1:
            progress.stop()
    for given, completion in zip(prompt, completions, strict=True):
        print(given + "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in completion.text))
    seconds = [end - begun for begun, end in pairwise(ends)]
    print(_summary(llm.core, seconds, sum(len(completion.token_ids) for completion in completions)))


def _summary(core: EngineCore, seconds: list[float], num_tokens: int) -> str:
    stats = core.stats
    parts = [f"{num_tokens} tokens in {sum(seconds):.2f} s, {len(seconds)} steps"]
    parts.append(f"{1e3 * statistics.median(seconds):.1f} ms a step (median)")
    if stats.num_drafts:
        parts.append(f"acceptance length {1 + stats.num_accepted_tokens / stats.num_drafts:.2f}")
    parts.append(f"{stats.launches_per_step} metadata launches a step ({core.metadata_path[0]})")
    return "; ".join(parts)
