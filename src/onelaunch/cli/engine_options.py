"""The options that make an engine, shared by the commands that run one. Named as vLLM's are."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import torch
import typer

from onelaunch.cli.device import chosen_device

if TYPE_CHECKING:
    from onelaunch.engine.config import EngineConfig

_THREADS = "OMP_NUM_THREADS"

Preset = Annotated[
    str | None,
    typer.Option(help="A shape with random weights: tiny, small or bench."),
]
Model = Annotated[
    Path | None, typer.Option(metavar="PATH", help="A checkpoint's folder. Default: the trained small model.")
]
Device = Annotated[str | None, typer.Option(help="cuda or cpu. Default: a GPU if there is one.")]
Monokernel = Annotated[
    bool | None,
    typer.Option(
        "--monokernel/--no-monokernel",
        help="Build decode metadata in one launch, or the usual way. Default: one launch on a GPU.",
    ),
]
Attention = Annotated[
    str | None,
    typer.Option(help="The reader: dense or ragged. Default: dense with the one-launch build, else ragged."),
]
SpeculativeConfig = Annotated[
    str | None,
    typer.Option(
        metavar="JSON", help="Drafting: method, num_speculative_tokens, rejection_sample_method, ..."
    ),
]
NoSpeculative = Annotated[bool, typer.Option("--no-speculative", help="No drafting.")]
MaxModelLen = Annotated[int | None, typer.Option(help="Longest sequence, prompt and output.")]
MaxNumSeqs = Annotated[int, typer.Option(help="Requests that run at once.")]
MaxNumBatchedTokens = Annotated[int | None, typer.Option(help="Rows of a step.")]
BlockSize = Annotated[int, typer.Option(help="Cache entries of a block.")]
NumBlocks = Annotated[int | None, typer.Option(help="Of the KV cache.")]
EnablePrefixCaching = Annotated[
    bool,
    typer.Option(
        "--enable-prefix-caching/--no-enable-prefix-caching", help="Share the blocks of equal prefixes."
    ),
]
EnforceEager = Annotated[bool, typer.Option("--enforce-eager", help="No CUDA graphs.")]
Seed = Annotated[int, typer.Option(help="Of random weights, and of requests without a seed.")]


def engine_config(
    *,
    preset: str | None,
    model: Path | None,
    device: str | None,
    speculative_config: str | None,
    no_speculative: bool,
    **others: Any,
) -> EngineConfig:
    """A checked configuration from a command's options; ``others`` are :meth:`EngineConfig.make`'s own.

    Raises:
        ValueError: an option is out of range or contradicts another.
    """
    if no_speculative and speculative_config is not None:
        raise ValueError(
            f"speculative-config is {speculative_config!r}: it must not be given with no-speculative"
        )
    if no_speculative:
        others["speculative"] = None
    elif speculative_config is not None:
        others["speculative"] = speculative_config
    chosen = chosen_device(device)  # decides about Triton's interpreter, so before the engine is imported
    from onelaunch.engine.config import EngineConfig

    if chosen.type == "cpu" and _THREADS not in os.environ:
        # A step of these models is hundreds of small operators. Threads that wait for each other in each of
        # them gain nothing alone, and take 30 times as long when a client wants one of their cores.
        torch.set_num_threads(1)
    return EngineConfig.make(preset=preset, model=model, device=chosen, **others)
