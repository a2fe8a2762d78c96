"""One streamed completion, timed."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx


class RequestFailed(Exception):
    """A request got no whole answer; the message says why."""


@dataclass(frozen=True, slots=True)
class RequestTiming:
    """Times of one request, in seconds.

    A speculative server sends several tokens in a chunk: the time between chunks is not that between tokens.
    ``inter_token_latency`` is therefore the request's mean, (last token - first token) / (tokens - 1), as
    guidellm's, and as the time per output token of ``vllm bench serve``.
    """

    time_to_first_token: float
    inter_token_latency: float
    output_tokens: int
    chunks: int


async def stream_completion(client: httpx.AsyncClient, body: Mapping[str, Any]) -> RequestTiming:
    """Send a completion request with ``stream`` and time its tokens.

    Raises:
        RequestFailed: no connection, a status other than 200, an error inside the stream, a stream that ends
            before its end, or an answer of fewer tokens than ``max_tokens``, or than two.
    """
    import httpx

    progress = _Progress(body["max_tokens"])
    start = time.perf_counter()
    try:
        async with client.stream("POST", "/v1/completions", json=body) as response:
            if response.status_code != 200:
                said = (await response.aread()).decode(errors="replace")
                raise RequestFailed(f"status {response.status_code}: {said[:300]}")
            async for now, data in _events(response):
                progress.add(now, data)
    except httpx.HTTPError as error:
        raise RequestFailed(f"{type(error).__name__}: {error}") from error
    return progress.timing(start)


async def _events(response: httpx.Response) -> AsyncIterator[tuple[float, str]]:
    """Server-sent events with the time when their last byte came."""
    rest = b""
    async for received in response.aiter_bytes():
        now = time.perf_counter()  # before any parsing
        *lines, rest = (rest + received).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                yield now, line[5:].decode(errors="replace").strip()


class _Progress:
    """What a stream has told so far."""

    def __init__(self, max_tokens: int) -> None:
        self._max_tokens = max_tokens
        self._first: float | None = None
        self._last = 0.0
        self._chunks = 0
        self._token_ids = 0
        self._usage: int | None = None
        self._finished = self._done = False

    def add(self, now: float, data: str) -> None:
        if data == "[DONE]":
            self._done = True
            return
        try:
            event = json.loads(data)
            if "error" in event or event.get("object") == "error":
                raise RequestFailed(f"an error in the stream: {data[:300]}")
            if event.get("usage"):
                self._usage = int(event["usage"]["completion_tokens"])
            for choice in event["choices"]:
                self._add_choice(now, choice)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise RequestFailed(f"an event that is no completion chunk: {data[:300]}") from error

    def _add_choice(self, now: float, choice: Mapping[str, Any]) -> None:
        reason = choice.get("finish_reason")
        if reason in ("abort", "error"):
            raise RequestFailed(f"the server ended the answer: {reason}")
        if reason is not None:
            self._finished = True
        # A token may have no text yet, and a last chunk no token: ids tell, where a server sends them.
        token_ids = choice.get("token_ids")
        if token_ids is None and not choice["text"]:
            return
        if token_ids is not None:
            if not token_ids:
                return
            self._token_ids += len(token_ids)
        self._chunks += 1
        self._last = now
        if self._first is None:
            self._first = now

    def timing(self, start: float) -> RequestTiming:
        if not (self._done and self._finished):
            raise RequestFailed("the stream ended before its last token")
        tokens = self._usage if self._usage is not None else self._token_ids
        if not tokens:
            raise RequestFailed("the server says neither usage nor token_ids: its tokens can't be counted")
        if tokens < self._max_tokens:
            raise RequestFailed(
                f"the answer has {tokens} of {self._max_tokens} tokens: cut off, or ignore_eos is not served"
            )
        if self._first is None or self._chunks < 2 or tokens < 2:
            raise RequestFailed(
                f"{tokens} tokens in {self._chunks} chunks: an inter-token latency needs at least 2 chunks"
            )
        return RequestTiming(
            time_to_first_token=self._first - start,
            inter_token_latency=(self._last - self._first) / (tokens - 1),
            output_tokens=tokens,
            chunks=self._chunks,
        )
