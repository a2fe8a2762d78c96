"""``/v1/chat/completions``."""

from __future__ import annotations

import time
from collections.abc import Sequence

from fastapi import Request
from fastapi.responses import Response

from onelaunch.engine.choice import Choice, Delta
from onelaunch.engine.sampling_params import SamplingParams
from onelaunch.server.answer import Piece, streamed, whole
from onelaunch.server.call import Call
from onelaunch.server.errors import ApiError
from onelaunch.server.logprobs import chat_logprobs
from onelaunch.server.protocol import ChatCompletionRequest, Message, parse
from onelaunch.server.service import Service


async def chat_completions(service: Service, http: Request) -> Response:
    """Continue a chat, ``n`` times."""
    arrival = time.monotonic()
    request = parse(await service.body(http), ChatCompletionRequest)
    service.check_model(request.model)
    service.limits.check_call(1, request.n, request.stop, request.stop_token_ids)
    service.check_tokens(request.stop_token_ids, "stop_token_ids")
    prompt = await service.token_ids(chat_prompt(service, request.messages), "messages")
    room = service.room(prompt, request.max_completion_tokens or request.max_tokens, "messages")
    num_logprobs = (request.top_logprobs or 0) if request.logprobs else None

    def params(place: int, choice: int) -> SamplingParams:
        return request.sampling(room, choice, num_logprobs)

    def piece(choice: Choice, delta: Delta) -> Piece:
        logprobs = None
        if request.logprobs:
            as_ids = request.return_tokens_as_token_ids
            logprobs = chat_logprobs(service.token_names, delta.logprobs, as_ids)
        piece: Piece = {
            "index": choice.index,
            "text": delta.text,
            "logprobs": logprobs,
            "finish_reason": choice.finish_reason,
            "stop_reason": choice.stop_reason,
        }
        if request.return_token_ids:
            piece["token_ids"] = delta.token_ids
        return piece

    call = await Call.start(service, http, "chatcmpl", request, [prompt], params, arrival)
    if request.stream:
        role = {"role": "assistant", "content": ""}
        first: list[Piece] = [
            {"index": choice.index, "delta": role, "logprobs": None, "finish_reason": None}
            for choice in call.choices
        ]
        return streamed(call, "chat.completion.chunk", piece, _as_delta, request.stream_options, first)
    return await whole(call, "chat.completion", piece, _as_message)


def chat_prompt(service: Service, messages: Sequence[Message]) -> str:
    """The text that a chat's messages become.

    Raises:
        ApiError: a role that the model has no token for.
    """
    try:
        return service.tokenizer.apply_chat_template(
            [{"role": message.role, "content": message.content} for message in messages]
        )
    except ValueError as error:
        raise ApiError(str(error), "messages") from error


def _as_delta(piece: Piece) -> Piece:
    return {**piece, "delta": {"content": piece.pop("text")}}


def _as_message(piece: Piece) -> Piece:
    return {**piece, "message": {"role": "assistant", "content": piece.pop("text")}}
