"""One choice of an answer: what the engine's tokens add to it, step by step."""

from __future__ import annotations

from dataclasses import dataclass

from onelaunch.engine.detokenizer import Decoder, Detokenizer, StopStrings
from onelaunch.engine.outputs import FinishReason, RequestOutput, TokenLogprobs
from onelaunch.engine.sampling_params import SamplingParams


@dataclass(slots=True)
class Delta:
    """What one step of the engine adds to a choice.

    Attributes:
        text: that can't become part of a stop string or of a character any more.
        token_ids: up to the one that ended the choice.
        logprobs: one a token when asked for, else empty.
        offsets: where each token begins in the choice's text.
        prompt_logprobs: of the prompt, in the first delta, when asked for.
    """

    text: str
    token_ids: list[int]
    logprobs: list[TokenLogprobs]
    offsets: list[int]
    prompt_logprobs: tuple[TokenLogprobs | None, ...]


class Choice:
    """Makes text of a request's outputs, and ends it at a stop string.

    Args:
        index: in the answer.
        stop_included: a stop string, or the text of a stop token, stays in the text.
        num_wanted: 0 drops the one token that the engine makes at least.

    Attributes:
        finish_reason: None while it goes on.
        stop_reason: the stop string, or the token id of the request's own, that ended it.
        num_tokens: so far.
        num_cached_tokens: of the prompt, found in the prefix cache.
    """

    def __init__(
        self, index: int, decoder: Decoder, params: SamplingParams, *, stop_included: bool, num_wanted: int
    ) -> None:
        self.index = index
        self.finish_reason: FinishReason | None = None
        self.stop_reason: str | int | None = None
        self.num_tokens = 0
        self.num_cached_tokens = 0
        self._params = params
        self._stop_included = stop_included
        self._num_wanted = num_wanted
        self._detokenizer = Detokenizer(decoder)
        self._stop = StopStrings(params.stop, included=stop_included)

    def take(self, output: RequestOutput) -> Delta:
        """Add a step's tokens. A stop string sets ``finish_reason``, though the engine does not know."""
        self.num_cached_tokens = output.num_cached_tokens
        delta = Delta("", [], [], [], output.prompt_logprobs)
        if self._num_wanted == 0:
            self.finish_reason = FinishReason.LENGTH
            return delta
        self.finish_reason, self.stop_reason = output.finish_reason, output.stop_reason
        for place, token_id in enumerate(output.token_ids):
            last = place == len(output.token_ids) - 1
            delta.token_ids.append(token_id)
            delta.logprobs += output.logprobs[place : place + 1]
            delta.offsets.append(self._detokenizer.num_chars)
            self.num_tokens += 1
            hidden = last and output.finish_reason is FinishReason.STOP and not self._stop_included
            if self._show(delta, "" if hidden else self._detokenizer.add(token_id)):
                return delta
        if self.finish_reason is not None and not self._show(delta, self._detokenizer.flush()):
            delta.text += self._stop.flush()
        return delta

    def _show(self, delta: Delta, text: str) -> bool:
        """Add text that is certain; whether a stop string ended the choice in it."""
        if self.num_tokens <= self._params.min_tokens:
            delta.text += text  # too early for a stop, and no part of a later one
            return False
        shown, stop = self._stop.add(text)
        delta.text += shown
        if stop is not None:
            self.finish_reason, self.stop_reason = FinishReason.STOP, stop
        return stop is not None
