"""One request on its way through the engine."""

from __future__ import annotations

from dataclasses import dataclass, field

from onelaunch.engine.outputs import TokenLogprobs
from onelaunch.engine.sampling_params import SamplingParams


@dataclass(slots=True, eq=False)
class Request:
    """A request and how far it is.

    ``tokens[:num_computed]`` are in the cache. While it decodes, exactly one token is not: the last one
    sampled.

    Attributes:
        tokens: prompt, then output.
        seed: of its random numbers.
        row: its row in block tables and in the state on the device; None while it waits.
        num_computed: tokens in the cache.
        num_cached: prompt tokens that the prefix cache had when it first ran; None before.
        decoding: it has sampled from its last computed row. A preempted request prefills again.
        stop_token_ids: of its parameters, as a set: every token is looked up in it.
        prompt_logprobs_so_far: of the prompt's chunks so far, when asked for.
    """

    request_id: str
    prompt_token_ids: tuple[int, ...]
    params: SamplingParams
    seed: int
    cache_salt: str | None = None
    tokens: list[int] = field(default_factory=list)
    row: int | None = None
    num_computed: int = 0
    num_cached: int | None = None
    decoding: bool = False
    prompt_logprobs_so_far: list[TokenLogprobs] = field(default_factory=list)
    stop_token_ids: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        self.tokens = list(self.prompt_token_ids)
        self.stop_token_ids = frozenset(self.params.stop_token_ids)

    @property
    def num_output(self) -> int:
        return len(self.tokens) - len(self.prompt_token_ids)

    @property
    def num_to_prefill(self) -> int:
        """Tokens to compute before it decodes: its prompt; or, of a preempted one, all but its last token."""
        return len(self.prompt_token_ids) + max(self.num_output - 1, 0)

    @property
    def known_token(self) -> int | None:
        """The token after its prefill, if it had sampled that before it was preempted.

        It is not sampled again. So the request goes on exactly where it was: with the same drafts, verified
        by the same random numbers.
        """
        return self.tokens[-1] if self.num_output and not self.decoding else None
