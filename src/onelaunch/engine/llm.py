"""``LLM``: the engine offline, for a list of prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from onelaunch.engine.config import EngineConfig
from onelaunch.engine.core import EngineCore
from onelaunch.engine.outputs import FinishReason, RequestOutput, TokenLogprobs
from onelaunch.engine.sampling_params import SamplingParams


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
        options: those of :meth:`EngineConfig.make`.

    Raises:
        OSError, ValueError: as :class:`EngineCore`.
    """

    def __init__(self, **options: Any) -> None:
        self.core = EngineCore(EngineConfig.make(**options))

    def generate(
        self,
        prompts: Sequence[str | Sequence[int]],
        params: SamplingParams | Sequence[SamplingParams] | None = None,
    ) -> list[Completion]:
        """Complete every prompt, as many at once as the engine takes.

        Args:
            prompts: texts or token ids.
            params: of all, or one for each.

        Raises:
            ValueError: a prompt or a parameter is out of range; nothing has run.
        """
        each = (
            [params or SamplingParams()] * len(prompts) if not isinstance(params, Sequence) else list(params)
        )
        if len(each) != len(prompts):
            raise ValueError(
                f"params has {len(each)} entries: it must have one for each of {len(prompts)} prompts"
            )
        core = self.core
        ids = [f"offline-{i}" for i in range(len(prompts))]
        try:
            for request_id, prompt, own in zip(ids, prompts, each, strict=True):
                core.add(
                    request_id, core.tokenizer.encode(prompt) if isinstance(prompt, str) else prompt, own
                )
            parts: dict[str, list[RequestOutput]] = {request_id: [] for request_id in ids}
            while core.has_unfinished():
                for output in core.step():
                    parts[output.request_id].append(output)
                    own = each[ids.index(output.request_id)]
                    if own.stop and output.finish_reason is None:
                        text = core.tokenizer.decode(
                            [t for part in parts[output.request_id] for t in part.token_ids]
                        )
                        if any(stop in text for stop in own.stop):
                            core.abort(output.request_id)
        finally:
            for request_id in ids:  # left over only after an error or an interrupt
                core.abort(request_id)
        return [self._completion(parts[i], own) for i, own in zip(ids, each, strict=True)]

    def _completion(self, parts: Sequence[RequestOutput], params: SamplingParams) -> Completion:
        token_ids = tuple(token for part in parts for token in part.token_ids)
        text = self.core.tokenizer.decode(token_ids)
        ends = [text.find(stop) for stop in params.stop if stop in text]
        reason = FinishReason.STOP if ends else parts[-1].finish_reason
        assert reason is not None
        return Completion(
            text=text[: min(ends)] if ends else text,
            token_ids=token_ids,
            finish_reason=reason,
            logprobs=tuple(entry for part in parts for entry in part.logprobs),
            prompt_logprobs=parts[0].prompt_logprobs,
        )
