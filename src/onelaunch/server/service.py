"""What all routes share: the engine, and the checks that every call goes through."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from functools import cached_property

from fastapi import Request
from starlette.requests import ClientDisconnect

from onelaunch.engine.tokenizer import Tokenizer
from onelaunch.server.engine_thread import EngineThread
from onelaunch.server.errors import CLIENT_GONE, ApiError
from onelaunch.server.limits import Limits
from onelaunch.server.logprobs import TokenNames


class Service:
    """A started engine and what may be asked of it."""

    def __init__(self, engine: EngineThread, limits: Limits) -> None:
        self.engine = engine
        self.limits = limits
        self.model_name: str = engine.core.config.model_name
        self.max_model_len: int = engine.core.config.max_model_len
        self.tokenizer: Tokenizer = engine.core.tokenizer
        self.created = int(time.time())

    @cached_property
    def token_names(self) -> TokenNames:
        return TokenNames(self.tokenizer)

    async def body(self, http: Request) -> bytes:
        """The body of a call.

        Raises:
            ApiError: it is larger than the limit, and the rest of it is not read; or the client is gone.
        """
        limit = self.limits.body_bytes
        declared = http.headers.get("content-length", "")
        body = bytearray()
        if not declared.isdecimal() or int(declared) <= limit:
            try:
                async for part in http.stream():
                    body += part
                    if len(body) > limit:
                        break
                else:
                    return bytes(body)
            except ClientDisconnect as error:
                raise ApiError("the client left before its request was whole", status=CLIENT_GONE) from error
        raise ApiError(f"the body is larger than {limit} bytes, the most that is taken", status=413)

    def check_model(self, name: str | None) -> None:
        """Raise ApiError (404) unless ``name`` is the served model's, or none."""
        if name is not None and name != self.model_name:
            raise ApiError(
                f"model is {name[:100]!r}: this server has {self.model_name!r}",
                "model",
                status=404,
                code="model_not_found",
            )

    async def token_ids(self, prompt: str | Sequence[int], param: str) -> Sequence[int]:
        """Token ids of a prompt.

        Raises:
            ApiError: it is empty, or has ids that the model does not.
        """
        if isinstance(prompt, str) and not self.tokenizer.may_fit(prompt, self.max_model_len):
            raise ApiError(
                f"{param} has {len(prompt)} characters: that is more than {self.max_model_len} tokens, the "
                "model's longest sequence",
                param,
                code="context_length_exceeded",
            )
        # A long text takes milliseconds, in which no other call would get its tokens.
        ids = await asyncio.to_thread(self.tokenizer.encode, prompt) if isinstance(prompt, str) else prompt
        if not ids:
            raise ApiError(f"{param} is empty: it must have at least one token", param)
        self.check_tokens(ids, param)
        return ids

    def check_tokens(self, token_ids: Sequence[int], param: str) -> None:
        """Raise ApiError for a token that the model does not have."""
        size = self.tokenizer.vocab_size
        for token in (min(token_ids, default=0), max(token_ids, default=0)):
            if not 0 <= token < size:
                raise ApiError(f"{param} has token {str(token)[:20]}: it must be 0 to {size - 1}", param)

    def room(self, prompt: Sequence[int], max_tokens: int | None, param: str) -> int:
        """Tokens to generate: as asked for, or what the longest sequence leaves.

        Raises:
            ApiError: prompt and output don't fit.
        """
        left = self.max_model_len - len(prompt)
        wanted = 1 if max_tokens is None else max(max_tokens, 1)  # the engine makes at least one
        if wanted > left:
            raise ApiError(
                f"{param} has {len(prompt)} tokens and max_tokens is {wanted}: together they must be at most "
                f"{self.max_model_len}, the model's longest sequence",
                param,
                code="context_length_exceeded",
            )
        return left if max_tokens is None else wanted
