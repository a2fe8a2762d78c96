"""What a load run asks for."""

from __future__ import annotations

from dataclasses import dataclass

from onelaunch.proof.load.url import check_url

FIRST_TOKEN_ID = 16  # the lowest ids are special tokens in many vocabularies


@dataclass(frozen=True, slots=True)
class LoadSettings:
    """One load run: ``requests`` requests over ``concurrency`` streams.

    Attributes:
        base_url: of the server, without ``/v1``.
        model: name that the server gives its model.
        concurrency: requests in flight at any time, until the last ones run out.
        requests: of the whole run, at least ``concurrency``.
        prompt_tokens: of each prompt. A text prompt has this many words: about as many tokens.
        max_tokens: of each answer, at least 2 (one has no inter-token latency). Sent with ``ignore_eos``.
        seed: decides all prompts. No two prompts of a run, or of runs with different seeds, share a prefix
            worth caching.
        vocab_size: prompts are ids from 16 up to this one, without it.
        text: send words instead of token ids, for servers that take no ids.
        timeout: seconds that a server may be silent in the middle of a request.

    Raises:
        ValueError: a number is out of range.
    """

    base_url: str
    model: str
    concurrency: int
    requests: int
    prompt_tokens: int
    max_tokens: int
    seed: int = 0
    vocab_size: int = 256
    text: bool = False
    timeout: float = 300.0

    def __post_init__(self) -> None:
        check_url("base-url", self.base_url)
        for name, least in (("concurrency", 1), ("prompt_tokens", 1), ("max_tokens", 2), ("seed", 0)):
            value = getattr(self, name)
            if value < least:
                raise ValueError(f"{name.replace('_', '-')} is {value}: it must be at least {least}")
        if self.requests < self.concurrency:
            raise ValueError(
                f"requests is {self.requests}: it must be at least the concurrency, {self.concurrency}"
            )
        if self.vocab_size <= FIRST_TOKEN_ID:
            raise ValueError(f"vocab-size is {self.vocab_size}: it must be more than {FIRST_TOKEN_ID}")
        if not self.timeout > 0:
            raise ValueError(f"timeout is {self.timeout}: it must be more than 0 s")
