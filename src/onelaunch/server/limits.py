"""How much one call, and all calls together, may ask for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from onelaunch.server.errors import ApiError


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What is refused before the engine sees it.

    Attributes:
        body_bytes: of one HTTP body.
        prompts: in one call.
        n: choices of one prompt.
        sequences: prompts x n of one call.
        live_sequences: running and waiting, of all calls: past it calls get status 429.
        stop_strings, stop_chars: of one call, and of one stop string. Every token is compared with them.
        stop_token_ids: of one call.
        text_chars, tokens: of one text to tokenize, and of one list to detokenize.
    """

    body_bytes: int = 8 << 20
    prompts: int = 512
    n: int = 128
    sequences: int = 1024
    live_sequences: int = 4096
    stop_strings: int = 32
    stop_chars: int = 256
    stop_token_ids: int = 256
    text_chars: int = 1 << 20
    tokens: int = 1 << 18

    def check_call(
        self, num_prompts: int, n: int, stop: tuple[str, ...], stop_token_ids: Sequence[int]
    ) -> None:
        """Raise ApiError unless one call may have so much."""
        if num_prompts > self.prompts:
            raise ApiError(
                f"prompt is a list of {num_prompts}: it must have at most {self.prompts} prompts", "prompt"
            )
        if n > self.n:
            raise ApiError(f"n is {n}: it must be at most {self.n}", "n")
        if num_prompts * n > self.sequences:
            raise ApiError(
                f"n is {n} and there are {num_prompts} prompts: n times the prompts must be at most "
                f"{self.sequences}",
                "n",
            )
        if len(stop) > self.stop_strings or any(len(text) > self.stop_chars for text in stop):
            raise ApiError(
                f"stop has {len(stop)} strings of up to {max(map(len, stop))} characters: it must have at "
                f"most {self.stop_strings} of at most {self.stop_chars}",
                "stop",
            )

        if len(stop_token_ids) > self.stop_token_ids:
            raise ApiError(
                f"stop_token_ids has {len(stop_token_ids)}: it must have at most {self.stop_token_ids}",
                "stop_token_ids",
            )

    def check_size(self, name: str, size: int, most: int) -> None:
        """Raise ApiError unless ``name`` has at most ``most`` of what it is made of."""
        if size > most:
            raise ApiError(f"{name} has {size}: it must have at most {most}", name)

    def check_live(self, live: int, more: int) -> None:
        """Raise ApiError (429) unless ``more`` sequences may join the ``live`` ones."""
        if live + more > self.live_sequences:
            raise ApiError(
                f"{live} sequences are running or waiting, and at most {self.live_sequences} may: try later",
                status=429,
            )
