"""A run: all prompts to a completions server, and every answer or none."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from onelaunch.proof.load.http import open_client
from onelaunch.proof.load.stream import RequestFailed
from onelaunch.proof.load.streams import in_streams

if TYPE_CHECKING:
    import httpx


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server said to one prompt.

    Attributes:
        finish_reason: "length" where the answer was cut off at max_tokens; "stop", or a server's own word.
        tokens: of the answer, 0 if the server doesn't say.
    """

    text: str
    finish_reason: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Asking:
    """How prompts are sent.

    Attributes:
        base_url: of the server, without ``/v1``.
        parallel: requests in flight.
        salt: each request gets a ``cache_salt`` of its own, so that no prefix cache can answer.
        timeout: seconds for one answer.
    """

    base_url: str
    model: str
    parallel: int
    max_tokens: int
    temperature: float
    stop: tuple[str, ...]
    salt: bool = False
    timeout: float = 600.0


async def served_model(base_url: str) -> str:
    """The name of the one model that a server has.

    Raises:
        ValueError: it does not answer, or has not exactly one.
    """
    import httpx

    try:
        async with open_client(base_url, 30.0) as client:
            response = await client.get("/v1/models")
            response.raise_for_status()
            names = [one["id"] for one in response.json()["data"]]
    except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{base_url} does not say what it serves ({error}): give model") from error
    if len(names) != 1:
        raise ValueError(f"{base_url} serves {', '.join(names) or 'no model'}: model must say which")
    return str(names[0])


async def ask_all(
    asking: Asking, prompts: Sequence[str], progress: Callable[[int], None] | None = None
) -> tuple[list[Answer], float]:
    """Every prompt's answer, in order, and the seconds it took.

    Nothing is asked twice: a server that drops requests is not measured.

    Args:
        progress: called with the number of answers.

    Raises:
        RequestFailed: a request failed; the others are given up.
    """
    answers: dict[int, Answer] = {}
    salt = secrets.token_hex(8) if asking.salt else None

    async with open_client(asking.base_url, asking.timeout, asking.parallel) as client:

        async def one(i: int) -> None:
            try:
                answers[i] = await _ask(client, _body(asking, prompts[i], salt and f"{salt}-{i}"))
            except RequestFailed as error:
                raise RequestFailed(f"question {i + 1} of {len(prompts)} failed: {error}") from error
            if progress is not None:
                progress(len(answers))

        start = time.perf_counter()
        await in_streams(len(prompts), asking.parallel, one)
        seconds = time.perf_counter() - start
    return [answers[i] for i in range(len(prompts))], seconds


def _body(asking: Asking, prompt: str, salt: str | None) -> dict[str, Any]:
    body = {
        "model": asking.model,
        "prompt": prompt,
        "max_tokens": asking.max_tokens,
        "temperature": asking.temperature,
        "stop": list(asking.stop),
    }
    return body if salt is None else {**body, "cache_salt": salt}


async def _ask(client: httpx.AsyncClient, body: dict[str, Any]) -> Answer:
    import httpx

    try:
        response = await client.post("/v1/completions", json=body)
    except httpx.HTTPError as error:
        raise RequestFailed(f"{type(error).__name__}: {error}") from error
    if response.status_code != 200:
        raise RequestFailed(f"status {response.status_code}: {response.text[:300]}")
    try:
        said = response.json()
        [choice] = said["choices"]
        answer = Answer(
            choice["text"],
            choice["finish_reason"],
            int((said.get("usage") or {}).get("completion_tokens", 0)),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        raise RequestFailed(f"this is no completion: {response.text[:300]}") from None
    # Other reasons are a server's own ways to end an answer ("repetition"); these are no ends.
    if not isinstance(answer.text, str) or answer.finish_reason in (None, "", "abort", "error"):
        raise RequestFailed(f"this is no finished completion: {response.text[:300]}")
    return answer
