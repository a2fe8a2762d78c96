"""One load run on a server: the built-in client, or a program whose result file is read.

Both programs' files have a p50 of each metric over requests:

- ``vllm bench serve --save-result`` (vLLM 0.33, ``vllm/benchmarks/serve.py``): ``median_tpot_ms`` and
  ``median_ttft_ms``. Its ``itl`` is the time between chunks: with speculation, not that between tokens, which
  ``tpot``, (latency - time to first token) / (tokens - 1), is.
- guidellm (0.8, ``benchmark/schemas/metrics.py``): ``inter_token_latency_ms`` of the successful requests,
  weighted by their tokens, and ``time_to_first_token_ms``.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onelaunch.proof.ab.plan import LoadPlan, Timeouts
from onelaunch.proof.load.client import run_load
from onelaunch.proof.load.result import LoadResult
from onelaunch.proof.load.settings import LoadSettings
from onelaunch.proof.load.stream import RequestFailed
from onelaunch.proof.processes.command import fill
from onelaunch.proof.processes.failure import naming
from onelaunch.proof.processes.process import Process
from onelaunch.proof.processes.server import Server


@dataclass(frozen=True, slots=True)
class Run:
    """What is kept of a load run: medians over its requests, in microseconds."""

    inter_token_latency_us: float
    time_to_first_token_us: float
    requests: int
    output_tokens: int
    seconds: float


@dataclass(frozen=True, slots=True)
class LoadFiles:
    """Where a load run writes: its log, and its result as JSON."""

    log: Path
    result: Path


def run_on(
    server: Server, plan: LoadPlan, concurrency: int, seed: int, files: LoadFiles, timeouts: Timeouts
) -> Run:
    """Load a healthy server once.

    Raises:
        ProcessFailed: the server died, the load program failed or took too long, a request failed, or the
            result can't be used. The message names the log.
    """
    files.result.unlink(missing_ok=True)  # one of an earlier attempt must not be taken for this one's
    if plan.client == "built-in":
        run = _built_in(server, plan, concurrency, seed, files, timeouts.load)
    else:
        run = _program(server, plan, concurrency, seed, files, timeouts)
    server.check_alive("during a load run")
    return run


def _built_in(
    server: Server, plan: LoadPlan, concurrency: int, seed: int, files: LoadFiles, seconds: float
) -> Run:
    settings = LoadSettings(
        base_url=server.base_url,
        model=plan.model,
        concurrency=concurrency,
        requests=plan.requests_per_stream * concurrency,
        prompt_tokens=plan.prompt_tokens,
        max_tokens=plan.max_tokens,
        seed=seed,
        vocab_size=plan.vocab_size,
        text=plan.text,
        timeout=seconds,
    )

    async def limited() -> LoadResult:
        async with asyncio.timeout(seconds):
            return await run_load(settings)

    try:
        result = asyncio.run(limited())
    except (RequestFailed, TimeoutError) as error:
        why = str(error) or f"not done after {seconds:g} s"
        files.log.write_text(f"{settings}\n{why}\n")
        _blame_server(server)
        raise naming(files.log, f"{server.what}: the load run failed (server's log: {server.log})") from None
    measured = result.as_json()
    files.result.write_text(json.dumps(measured) + "\n")
    return Run(
        inter_token_latency_us=measured["inter_token_latency_us"]["p50"],
        time_to_first_token_us=measured["time_to_first_token_us"]["p50"],
        requests=settings.requests,
        output_tokens=result.output_tokens,
        seconds=result.seconds,
    )


def _program(
    server: Server, plan: LoadPlan, concurrency: int, seed: int, files: LoadFiles, timeouts: Timeouts
) -> Run:
    command = fill(
        plan.command,
        base_url=server.base_url,
        port=server.base_url.rpartition(":")[2],
        concurrency=concurrency,
        requests=plan.requests_per_stream * concurrency,
        seed=seed,
        result=files.result.absolute(),
    )
    start = time.monotonic()
    with Process(command, files.log, {}, timeouts.stop) as process:
        status = process.wait(timeouts.load)
    seconds = time.monotonic() - start
    if status != 0:
        _blame_server(server)
        how = f"not done after {timeouts.load:g} s" if status is None else f"status {status}"
        raise naming(files.log, f"{server.what}: the load program failed ({how}; server's log: {server.log})")
    read = {"vllm": read_vllm, "guidellm": read_guidellm}[plan.client]
    try:
        return read(json.loads(files.result.read_text()), seconds)
    except OSError:
        raise naming(files.log, f"{server.what}: the load program wrote no {files.result}") from None
    except ValueError as error:
        raise naming(files.log, f"{server.what}: {files.result} can't be used: {error}") from None


def _blame_server(server: Server) -> None:
    """If the server died, its log says more than that of the load, which only lost its connection."""
    time.sleep(0.2)  # its supervisor needs a moment to see it
    server.check_alive("during a load run")


def read_vllm(result: Mapping[str, Any], seconds: float) -> Run:
    """A result of ``vllm bench serve --save-result``.

    Raises:
        ValueError: it is none, or a request failed.
    """
    completed, wanted, failed = (
        _number(result, "completed"),
        _number(result, "num_prompts"),
        result.get("failed", 0),  # newer than the other fields
    )
    if failed or completed != wanted:
        raise ValueError(f"{completed:g} of {wanted:g} requests completed: all must")
    return _run(
        _number(result, "median_tpot_ms"),
        _number(result, "median_ttft_ms"),
        int(completed),
        _number(result, "total_output_tokens"),
        float(result.get("duration", seconds)),
    )


def read_guidellm(result: Mapping[str, Any], seconds: float) -> Run:
    """A JSON report of guidellm with one benchmark.

    Raises:
        ValueError: it is none, it holds several benchmarks, or a request failed or was cut off.
    """
    benchmarks = result.get("benchmarks") if isinstance(result, Mapping) else None
    if not isinstance(benchmarks, list) or len(benchmarks) != 1:
        found = len(benchmarks) if isinstance(benchmarks, list) else "no"
        raise ValueError(f"it has {found} benchmarks: it must have one, of one concurrency")
    totals = ("metrics", "request_totals")
    good, bad, cut = (
        _number(benchmarks[0], *totals, name) for name in ("successful", "errored", "incomplete")
    )
    if bad or cut or not good:
        raise ValueError(
            f"{good:g} requests were answered, {bad:g} failed, {cut:g} were cut off: all must be answered"
        )
    return _run(
        _number(benchmarks[0], "metrics", "inter_token_latency_ms", "successful", "median"),
        _number(benchmarks[0], "metrics", "time_to_first_token_ms", "successful", "median"),
        int(good),
        _number(benchmarks[0], "metrics", "output_token_count", "successful", "total_sum"),
        seconds,
    )


def _run(itl_ms: float, ttft_ms: float, requests: int, tokens: float, seconds: float) -> Run:
    if not (itl_ms > 0 and ttft_ms > 0):  # both programs write 0 when they have no times
        raise ValueError(f"its medians, {itl_ms:g} and {ttft_ms:g} ms, are not both above 0")
    return Run(itl_ms * 1000, ttft_ms * 1000, requests, int(tokens), seconds)


def _number(value: Any, *path: str) -> float:
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    if type(value) not in (int, float):
        raise ValueError(f"it has no number {'.'.join(path)}")
    return float(value)
