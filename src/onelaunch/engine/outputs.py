"""What a step of the engine gives back to whoever asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class FinishReason(StrEnum):
    """Why a request ended: the words of OpenAI's API, and of vLLM for the two that it lacks."""

    STOP = "stop"  # end of sequence, a stop token id or a stop string
    LENGTH = "length"  # max_tokens, or the model's longest sequence
    ABORT = "abort"  # the caller took it back
    ERROR = "error"  # the engine could not go on with it


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """The log-probability of one token, and of the most likely ones at its place, best first."""

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOutput:
    """What one step adds to one request.

    Attributes:
        request_id: as given to ``EngineCore.add``.
        token_ids: new tokens; empty only when the request ends without one.
        logprobs: one a new token when asked for, else empty.
        prompt_logprobs: once, with the first output, when asked for: None for the first prompt token.
        num_cached_tokens: prompt tokens found in the prefix cache.
        finish_reason: None while the request goes on.
        stop_reason: the stop token id that ended it, if one of the request's own did.
    """

    request_id: str
    token_ids: tuple[int, ...]
    logprobs: tuple[TokenLogprobs, ...] = ()
    prompt_logprobs: tuple[TokenLogprobs | None, ...] = ()
    num_cached_tokens: int = 0
    finish_reason: FinishReason | None = None
    stop_reason: int | None = None


@dataclass(slots=True)
class EngineStats:
    """Counters since the engine started, and gauges of now. The server turns them into metrics.

    Attributes:
        num_drafts: draft blocks, one a request and decode step; adaptive verification may take none of it.
        num_draft_tokens, num_accepted_tokens: their verified tokens, and those accepted.
        accepted_per_pos: how often the draft token at each position was accepted; [k].
        prompt_tokens, generation_tokens: tokens of prompts that were computed or found, each prompt once, and
            tokens generated.
        prefix_cache_queries, prefix_cache_hits: prompt tokens looked up, and found.
        preemptions: requests that lost their blocks and were computed again.
        running, waiting: requests now.
        kv_cache_usage: share of blocks in use, 0 to 1.
        launches_per_step: host launches that built the last decode step's metadata.
    """

    num_drafts: int = 0
    num_draft_tokens: int = 0
    num_accepted_tokens: int = 0
    accepted_per_pos: list[int] = field(default_factory=list)
    prompt_tokens: int = 0
    generation_tokens: int = 0
    prefix_cache_queries: int = 0
    prefix_cache_hits: int = 0
    preemptions: int = 0
    running: int = 0
    waiting: int = 0
    kv_cache_usage: float = 0.0
    launches_per_step: int = 0
