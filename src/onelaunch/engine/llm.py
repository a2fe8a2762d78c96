"""``LLM``: the engine offline, for a list of prompts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from onelaunch.engine.choice import Choice, Delta
from onelaunch.engine.config import EngineConfig
from onelaunch.engine.core import EngineCore
from onelaunch.engine.outputs import FinishReason, RequestOutput, TokenLogprobs
from onelaunch.engine.sampling_params import SamplingParams
from onelaunch.engine.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Completion:
    """One prompt's output.

    Attributes:
        text: of the output, up to a stop string.
        token_ids: of the output.
        finish_reason: why it ended.
        logprobs: one a token when asked for, else empty.
        prompt_logprobs: one a prompt token when asked for, None for the first; else empty.
    """

    text: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason
    logprobs: tuple[TokenLogprobs, ...]
    prompt_logprobs: tuple[TokenLogprobs | None, ...]


class LLM:
    """A model that completes prompts.

    >>> llm = LLM(preset="tiny")
    >>> [completion] = llm.generate(["2 + 3 ="], SamplingParams(max_tokens=8, temperature=0))
    >>> len(completion.token_ids)
    8

    Args:
        config: a checked configuration; or
        options: those of :meth:`EngineConfig.make`.

    Raises:
        OSError, ValueError: as :class:`EngineCore`.
    """

    def __init__(self, config: EngineConfig | None = None, **options: Any) -> None:
        self.core = EngineCore(config or EngineConfig.make(**options))

    def generate(
        self,
        prompts: Sequence[str | Sequence[int]],
        params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        after_step: Callable[[int], None] | None = None,
    ) -> list[Completion]:
        """Complete every prompt, as many at once as the engine takes.

        Args:
            prompts: texts or token ids.
            params: of all, or one for each.
            after_step: called after every step with the number of its new tokens.

        Raises:
            ValueError: a prompt or a parameter is out of range; nothing has run.
        """
        if isinstance(prompts, str):
            raise ValueError(f"prompts is {prompts[:60]!r}: it must be a list of prompts")
        if params is None or isinstance(params, SamplingParams):
            params = [params or SamplingParams()] * len(prompts)
        if len(params) != len(prompts):
            raise ValueError(
                f"params has {len(params)} entries: it must have one for each of {len(prompts)} prompts"
            )
        pending = {f"offline-{i}": _Pending(self.core.tokenizer, own) for i, own in enumerate(params)}
        try:
            for (request_id, own), prompt in zip(pending.items(), prompts, strict=True):
                token_ids = self.core.tokenizer.encode(prompt) if isinstance(prompt, str) else prompt
                self.core.add(request_id, token_ids, own.params)
            while self.core.has_unfinished():
                outputs = self.core.step()
                for output in outputs:
                    pending[output.request_id].take(output)
                    if pending[output.request_id].choice.finish_reason is not None:
                        self.core.abort(output.request_id)
                if after_step is not None:
                    after_step(sum(len(output.token_ids) for output in outputs))
        finally:
            for request_id in pending:  # left over only after an error or an interrupt
                self.core.abort(request_id)
        return [own.completion() for own in pending.values()]


class _Pending:
    """A completion that is being made."""

    def __init__(self, tokenizer: Tokenizer, params: SamplingParams) -> None:
        self.params = params
        self.choice = Choice(0, tokenizer, params, stop_included=False, num_wanted=params.max_tokens)
        self._deltas: list[Delta] = []

    def take(self, output: RequestOutput) -> None:
        self._deltas.append(self.choice.take(output))

    def completion(self) -> Completion:
        reason = self.choice.finish_reason
        assert reason is not None
        return Completion(
            text="".join(delta.text for delta in self._deltas),
            token_ids=tuple(token for delta in self._deltas for token in delta.token_ids),
            finish_reason=reason,
            logprobs=tuple(entry for delta in self._deltas for entry in delta.logprobs),
            prompt_logprobs=self._deltas[0].prompt_logprobs,
        )
