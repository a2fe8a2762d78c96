"""``onelaunch load``: a fixed number of streams against a server, and what their tokens took."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from onelaunch.cli.errors import CheckFailed
from onelaunch.cli.files import json_option, require_writable
from onelaunch.proof.load import LoadResult, LoadSettings, RequestFailed, run_load


def load(
    base_url: Annotated[str, typer.Option(help="Of the server, without /v1.")],
    model: Annotated[str, typer.Option(help="What the server calls its model.")],
    concurrency: Annotated[int, typer.Option(help="Requests in flight.")] = 1,
    requests: Annotated[
        int | None, typer.Option(help="Of the whole run. Default: 4 for each request in flight.")
    ] = None,
    prompt_tokens: Annotated[int, typer.Option(help="Of each prompt.")] = 512,
    max_tokens: Annotated[int, typer.Option(help="Of each answer; the end of sequence is ignored.")] = 128,
    seed: Annotated[int, typer.Option(help="Decides all prompts.")] = 0,
    vocab_size: Annotated[int, typer.Option(help="Prompts are token ids from 16 to below this.")] = 256,
    text: Annotated[bool, typer.Option("--text", help="Send words, not token ids.")] = False,
    timeout: Annotated[float, typer.Option(help="Seconds that the server may be silent.")] = 300.0,
    json_out: Annotated[Path | None, json_option()] = None,
) -> None:
    """Stream completions at a fixed concurrency: inter-token latency and time to first token."""
    require_writable(json=json_out)
    settings = LoadSettings(
        base_url=base_url.rstrip("/").removesuffix("/v1"),
        model=model,
        concurrency=concurrency,
        requests=4 * concurrency if requests is None else requests,
        prompt_tokens=prompt_tokens,
        max_tokens=max_tokens,
        seed=seed,
        vocab_size=vocab_size,
        text=text,
        timeout=timeout,
    )
    console = Console(stderr=True)
    with Progress(
        TextColumn("requests"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        refresh_per_second=2,  # drawing takes time from the streams
    ) as progress:
        bar = progress.add_task("", total=settings.requests)
        try:
            result = asyncio.run(run_load(settings, lambda done: progress.update(bar, completed=done)))
        except RequestFailed as error:
            raise CheckFailed(f"{error}: the run has no result") from None
    _print(Console(), result)
    if json_out is not None:
        json_out.write_text(json.dumps(result.as_json(), indent=1) + "\n")


def _print(console: Console, result: LoadResult) -> None:
    measured = result.as_json()
    table = Table(
        title=f"{result.settings.requests:,} requests, {result.settings.concurrency:,} in flight",
        caption=f"{measured['output_tokens']:,} tokens in {result.seconds:.1f} s "
        f"({measured['output_tokens_per_second']:,.0f} a second), "
        f"{measured['tokens_per_chunk']:.2f} tokens a chunk",
        title_justify="left",
        caption_justify="left",
    )
    table.add_column("microseconds")
    for name in ("p50", "mean", "p90", "p99"):
        table.add_column(name, justify="right")
    for label, key in (
        ("inter-token latency of a request", "inter_token_latency_us"),
        ("time to first token", "time_to_first_token_us"),
    ):
        table.add_row(label, *(f"{measured[key][name]:,.0f}" for name in ("p50", "mean", "p90", "p99")))
    console.print(table)
