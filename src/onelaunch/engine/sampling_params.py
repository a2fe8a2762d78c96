"""How one request samples: what the server and offline callers ask for."""

from __future__ import annotations

from dataclasses import dataclass

from onelaunch.engine.checks import is_int, is_number, require

MAX_LOGPROBS = 20
_HOTTEST = 1_000_000  # far past the point where all tokens are alike


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """Sampling of one request.

    Attributes:
        max_tokens: tokens to generate at most, at least 1.
        temperature: 0 is greedy.
        top_p: nucleus, in (0, 1].
        top_k: candidates kept; 0 keeps all.
        seed: makes a request's random numbers its own, whatever runs beside it; None takes one from the
            engine's seed.
        stop: strings that end the output; they are not part of it.
        stop_token_ids: token ids that end the output; the token is part of it.
        ignore_eos: go on after the end-of-sequence token.
        min_tokens: no end-of-sequence or stop before so many tokens.
        logprobs: most likely tokens returned with each generated one, 0 to 20; None returns no logprobs.
        prompt_logprobs: the same of the prompt's tokens (from the second on).

    Raises:
        ValueError: a field is out of range, or of another type.
    """

    max_tokens: int = 16
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    min_tokens: int = 0
    logprobs: int | None = None
    prompt_logprobs: int | None = None

    def __post_init__(self) -> None:
        for name in ("max_tokens", "top_k", "seed", "min_tokens", "logprobs", "prompt_logprobs"):
            value = getattr(self, name)
            if value is not None or name in ("max_tokens", "top_k", "min_tokens"):
                require(name, value, is_int(value), "an integer")
        for name in ("temperature", "top_p"):
            require(name, getattr(self, name), is_number(getattr(self, name)), "a number")
        # A string is a sequence of strings, too: each of its characters would end the output.
        texts = isinstance(self.stop, (tuple, list)) and all(isinstance(text, str) for text in self.stop)
        require("stop", self.stop, texts, "a tuple of strings")
        ids = isinstance(self.stop_token_ids, (tuple, list)) and all(map(is_int, self.stop_token_ids))
        require("stop_token_ids", self.stop_token_ids, ids, "a tuple of token ids")
        require("max_tokens", self.max_tokens, self.max_tokens >= 1, "at least 1")
        require("temperature", self.temperature, 0 <= self.temperature <= _HOTTEST, f"from 0 to {_HOTTEST:,}")
        require("top_p", self.top_p, 0 < self.top_p <= 1, "above 0 and at most 1")
        require("top_k", self.top_k, 0 <= self.top_k < 2**31, "from 0, which keeps all tokens, to 2**31 - 1")
        require("min_tokens", self.min_tokens, 0 <= self.min_tokens <= self.max_tokens, "0 to max_tokens")
        if self.seed is not None:
            require("seed", self.seed, -(2**63) <= self.seed < 2**63, "a 64-bit integer")
        require("stop", self.stop, all(self.stop), "of strings that are not empty")
        for name in ("logprobs", "prompt_logprobs"):
            value = getattr(self, name)
            if value is not None:
                require(name, value, 0 <= value <= MAX_LOGPROBS, f"0 to {MAX_LOGPROBS}")
