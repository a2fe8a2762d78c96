"""``/v1/completions``."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from fastapi import Request
from fastapi.responses import Response

from onelaunch.engine.choice import Choice, Delta
from onelaunch.engine.detokenizer import Detokenizer
from onelaunch.engine.outputs import TokenLogprobs
from onelaunch.engine.sampling_params import SamplingParams
from onelaunch.server.answer import Piece, streamed, whole
from onelaunch.server.call import Call
from onelaunch.server.logprobs import completion_logprobs
from onelaunch.server.protocol import CompletionRequest, parse
from onelaunch.server.service import Service


async def completions(service: Service, http: Request) -> Response:
    """Complete one prompt or several, ``n`` times each."""
    arrival = time.monotonic()
    request = parse(await service.body(http), CompletionRequest)
    service.check_model(request.model)
    service.limits.check_call(len(request.prompt), request.n, request.stop, request.stop_token_ids)
    service.check_tokens(request.stop_token_ids, "stop_token_ids")
    prompts = [await service.token_ids(prompt, "prompt") for prompt in request.prompt]
    rooms = [service.room(prompt, request.max_tokens, "prompt") for prompt in prompts]

    def params(place: int, choice: int) -> SamplingParams:
        return request.sampling(
            rooms[place], choice, request.logprobs, request.logprobs if request.echo else None
        )

    pieces = _Pieces(service, request, prompts)  # before the engine has anything that an error would leave
    call = await Call.start(
        service, http, "cmpl", request, prompts, params, arrival, num_wanted=request.max_tokens
    )
    if request.stream:
        return streamed(call, "text_completion", pieces.piece, _as_it_is, request.stream_options, [])
    return await whole(call, "text_completion", pieces.piece, _as_it_is)


def _as_it_is(piece: Piece) -> Piece:
    return piece


class _Pieces:
    """Choices' parts of one call, with the echoed prompt in the first of each."""

    def __init__(
        self, service: Service, request: CompletionRequest, prompts: Sequence[Sequence[int]]
    ) -> None:
        self._request = request
        self._prompts = prompts
        self._names = service.token_names
        self._begun: set[int] = set()
        self._echoes = [
            prompt if isinstance(prompt, str) else service.tokenizer.decode(prompt)
            for prompt in (request.prompt if request.echo else [])
        ]
        self._decoder = service.tokenizer

    def piece(self, choice: Choice, delta: Delta) -> Piece:
        request, place = self._request, choice.index // self._request.n
        prompt = self._prompts[place]
        echo = self._echoes[place] if request.echo else ""
        first = choice.index not in self._begun
        self._begun.add(choice.index)
        piece: Piece = {
            "index": choice.index,
            "text": echo + delta.text if first else delta.text,
            "logprobs": None,
            "finish_reason": choice.finish_reason,
            "stop_reason": choice.stop_reason,
        }
        if request.logprobs is not None:
            offsets = [len(echo) + offset for offset in delta.offsets]
            piece["logprobs"] = self._logprobs(delta.token_ids, delta.logprobs, offsets)
            if first and request.echo:
                of_prompt = self._logprobs(prompt, delta.prompt_logprobs, self._offsets(prompt))
                piece["logprobs"] = {name: of_prompt[name] + piece["logprobs"][name] for name in of_prompt}
        if request.return_token_ids:
            piece["token_ids"] = delta.token_ids
            if first:
                piece["prompt_token_ids"] = list(prompt)
        return piece

    def _logprobs(
        self, token_ids: Sequence[int], entries: Sequence[TokenLogprobs | None], offsets: list[int]
    ) -> dict[str, Any]:
        as_ids = self._request.return_tokens_as_token_ids
        return completion_logprobs(self._names, token_ids, entries, offsets, as_ids)

    def _offsets(self, prompt: Sequence[int]) -> list[int]:
        detokenizer = Detokenizer(self._decoder)
        offsets = []
        for token_id in prompt:
            offsets.append(detokenizer.num_chars)
            detokenizer.add(token_id)
        return offsets
