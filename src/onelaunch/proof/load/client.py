"""Requests at a fixed concurrency."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

from onelaunch.proof.extras import require
from onelaunch.proof.load.http import open_client
from onelaunch.proof.load.prompts import make_prompts
from onelaunch.proof.load.result import LoadResult
from onelaunch.proof.load.settings import LoadSettings
from onelaunch.proof.load.stream import RequestFailed, RequestTiming, stream_completion
from onelaunch.proof.load.streams import in_streams


async def run_load(settings: LoadSettings, progress: Callable[[int], None] | None = None) -> LoadResult:
    """Run one load: as many streams as ``concurrency``, each sending its next request when one is answered.

    Args:
        progress: called with the number of answered requests.

    Raises:
        RequestFailed: one request failed; the others are given up, as a run with holes is another load. Or
            something buffers the streams.
        ValueError: httpx is not installed.
    """
    require("httpx")
    prompts = make_prompts(settings)
    timings: dict[int, RequestTiming] = {}

    async with open_client(settings.base_url, settings.timeout, settings.concurrency) as client:

        async def one(i: int) -> None:
            try:
                timings[i] = await stream_completion(client, _body(settings, prompts[i]))
            except RequestFailed as error:
                raise RequestFailed(f"request {i + 1} of {settings.requests} failed: {error}") from error
            if progress is not None:
                progress(len(timings))

        start = time.perf_counter()
        await in_streams(settings.requests, settings.concurrency, one)
        seconds = time.perf_counter() - start
    result = LoadResult(settings, tuple(timings[i] for i in range(settings.requests)), seconds)
    if statistics.median(result.inter_token_latencies_us) == 0:
        raise RequestFailed("all tokens of most answers came at once: something buffers the streams")
    return result


def _body(settings: LoadSettings, prompt: str | list[int]) -> dict[str, Any]:
    return {
        "model": settings.model,
        "prompt": prompt,
        "max_tokens": settings.max_tokens,
        "temperature": 0,
        "ignore_eos": True,  # answers of equal length, whatever the prompts
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_token_ids": True,
    }
