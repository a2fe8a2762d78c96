"""A call's answer, whole or as server-sent events, from the pieces that the engine's steps add to it."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

from fastapi.responses import JSONResponse, Response, StreamingResponse

from onelaunch.engine.choice import Choice, Delta
from onelaunch.server.call import Call
from onelaunch.server.errors import ApiError, internal_error
from onelaunch.server.protocol import StreamOptions

_log = logging.getLogger("onelaunch.server")

# A choice's part of an answer: its index, "text", "logprobs" (lists by name, or None), "token_ids" when asked
# for, "finish_reason" and "stop_reason".
Piece = dict[str, Any]


async def whole(
    call: Call, kind: str, piece: Callable[[Choice, Delta], Piece], shaped: Callable[[Piece], Piece]
) -> Response:
    """The answer of a call that does not stream.

    Args:
        kind: its ``object``.
        piece: of a delta.
        shaped: a choice in the answer, from all its pieces as one.
    """
    pieces: dict[int, Piece] = {}
    try:
        async for choice, delta in call.deltas():
            new = piece(choice, delta)
            if choice.index not in pieces:
                pieces[choice.index] = new
            else:
                _extend(pieces[choice.index], new)
    finally:
        call.close()
    answer = call.envelope(kind, [shaped(pieces[index]) for index in sorted(pieces)])
    return JSONResponse({**answer, "usage": call.usage()})


def _extend(piece: Piece, new: Piece) -> None:
    piece["text"] += new["text"]
    for name in ("finish_reason", "stop_reason"):
        piece[name] = new[name]
    if "token_ids" in piece:
        piece["token_ids"] += new["token_ids"]
    for name, values in (piece["logprobs"] or {}).items():
        values += new["logprobs"][name]


def streamed(
    call: Call,
    kind: str,
    piece: Callable[[Choice, Delta], Piece],
    shaped: Callable[[Piece], Piece],
    options: StreamOptions | None,
    first: list[Piece],
) -> Response:
    """The answer of a call that streams: a chunk for each step and choice, even when its text is held back.

    Args:
        first: choices of a chunk ahead of all others; empty for none.
    """
    events = _events(call, kind, piece, shaped, options or StreamOptions(), first)
    return StreamingResponse(events, media_type="text/event-stream", headers={"cache-control": "no-cache"})


async def _events(
    call: Call,
    kind: str,
    piece: Callable[[Choice, Delta], Piece],
    shaped: Callable[[Piece], Piece],
    options: StreamOptions,
    first: list[Piece],
) -> AsyncIterator[bytes]:
    def chunk(choices: list[Piece]) -> bytes:
        data = call.envelope(kind, choices)
        if options.continuous_usage_stats:
            data["usage"] = call.usage()
        elif options.include_usage:
            data["usage"] = None
        return _event(data)

    try:
        if first:
            yield chunk(first)
        async for choice, delta in call.deltas():
            yield chunk([shaped(piece(choice, delta))])
        if options.include_usage:
            yield _event({**call.envelope(kind, []), "usage": call.usage()})
    except ApiError as error:
        yield _event(error.body)
    except Exception:
        _log.exception("a stream failed")
        yield _event(internal_error().body)
    finally:
        call.close()
    yield b"data: [DONE]\n\n"


def _event(data: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(data, ensure_ascii=False, separators=(',', ':'))}\n\n".encode()
