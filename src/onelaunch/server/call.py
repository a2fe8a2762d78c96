"""One call whose sequences are in the engine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from fastapi import Request

from onelaunch.engine.choice import Choice, Delta
from onelaunch.engine.sampling_params import SamplingParams
from onelaunch.server.engine_thread import EngineRequest, Generation
from onelaunch.server.protocol import GenerationRequest
from onelaunch.server.service import Service


@dataclass
class Call:
    """One call whose requests are in the engine. Close it, whatever happens."""

    call_id: str
    created: int
    model_name: str
    prompts: Sequence[Sequence[int]]
    choices: list[Choice]
    generation: Generation
    watcher: asyncio.Task[None]

    @staticmethod
    async def start(
        service: Service,
        http: Request,
        prefix: str,
        request: GenerationRequest,
        prompts: Sequence[Sequence[int]],
        params: Callable[[int, int], SamplingParams],
        arrival: float,
        *,
        num_wanted: int | None = None,
    ) -> Call:
        """Add the call's sequences to the engine.

        Args:
            params: of a prompt's index and a choice's among its ``n``.
            num_wanted: 0 drops the token that the engine makes at least.

        Raises:
            ApiError: the queue is full, or the engine refuses it.
        """
        service.limits.check_live(service.engine.num_live, len(prompts) * request.n)
        call_id = f"{prefix}-{uuid4().hex}"
        requests, choices = [], []
        for place, prompt in enumerate(prompts):
            for choice in range(request.n):
                own = params(place, choice)
                index = place * request.n + choice
                requests.append(EngineRequest(f"{call_id}-{index}", prompt, own, request.cache_salt))
                choices.append(
                    Choice(
                        index,
                        service.tokenizer,
                        own,
                        stop_included=request.include_stop_str_in_output,
                        num_wanted=own.max_tokens if num_wanted is None else num_wanted,
                    )
                )
        generation = await service.engine.submit(requests, arrival)
        # Not left to the response: one that is cancelled before it begins would leave its requests running.
        watcher = asyncio.create_task(_close_when_gone(http, generation))
        return Call(call_id, int(time.time()), service.model_name, prompts, choices, generation, watcher)

    async def deltas(self) -> AsyncIterator[tuple[Choice, Delta]]:
        """What each step adds to each choice, until all have ended.

        Raises:
            ApiError: the engine failed, the server stops, or the client is gone.
        """
        async for output in self.generation:
            choice = self.choices[int(output.request_id.rpartition("-")[2])]
            delta = choice.take(output)
            if choice.finish_reason is not None:
                self.generation.finish(output.request_id)
            yield choice, delta

    def usage(self) -> dict[str, Any]:
        """Tokens so far, in OpenAI's shape."""
        prompt = sum(map(len, self.prompts))
        completion = sum(choice.num_tokens for choice in self.choices)
        n = len(self.choices) // len(self.prompts)
        return {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
            "prompt_tokens_details": {
                "cached_tokens": sum(choice.num_cached_tokens for choice in self.choices[::n])
            },
        }

    def envelope(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        """An answer, or a chunk of one."""
        return {
            "id": self.call_id,
            "object": kind,
            "created": self.created,
            "model": self.model_name,
            "choices": choices,
        }

    def close(self) -> None:
        """Take back what still runs."""
        self.watcher.cancel()
        self.generation.close()


async def _close_when_gone(http: Request, generation: Generation) -> None:
    while (await http.receive())["type"] != "http.disconnect":
        pass
    generation.close()
