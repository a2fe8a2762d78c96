"""An engine without a model: token ids that follow from the prompt, several a step, and faults on demand.

The output at place ``p`` is ``(sum(prompt) + 7 p) % 95 + 32``: printable ASCII, one byte a token, unless the
fake is given a script. Steps after the first give 1 to ``burst`` tokens, as if drafts had been accepted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace

from onelaunch.engine.outputs import EngineStats, FinishReason, RequestOutput, TokenLogprobs

EOS = 257


class ByteTokenizer:
    """A token a byte; 256 and 257 are special and have no text."""

    eos_token_id = EOS
    vocab_size = 264

    def encode(self, text: str) -> list[int]:
        if text == "<|eos|>":
            return [EOS]
        return list(text.encode())

    def may_fit(self, text: str, num_tokens: int) -> bool:
        return len(text) <= num_tokens

    def decode(self, token_ids: Sequence[int]) -> str:
        return bytes(token for token in token_ids if token < 256).decode(errors="replace")

    def apply_chat_template(self, messages) -> str:
        for message in messages:
            if message["role"] not in ("system", "user", "assistant"):
                raise ValueError(f"role is {message['role']!r}: it must be system, user or assistant")
        return "".join(f"[{message['role']}]{message['content']}" for message in messages)


def expected_tokens(prompt: Sequence[int], count: int, start: int = 0) -> list[int]:
    return [(sum(prompt) + 7 * place) % 95 + 32 for place in range(start, start + count)]


@dataclass
class _Running:
    prompt: tuple[int, ...]
    params: object
    output: list[int] = field(default_factory=list)


class FakeCore:
    """What the server knows of ``EngineCore``.

    Attributes:
        script: tokens of every request; None for those of :func:`expected_tokens`.
        before_step: called in the engine's thread at the beginning of every step: waits, or raises.
        aborted: requests that were taken back while they ran.
        seen: (request id, prompt, params, cache salt) of every request.
    """

    def __init__(
        self,
        *,
        script: Sequence[int] | None = None,
        burst: int = 3,
        max_model_len: int = 256,
        max_num_seqs: int = 8,
        before_step: Callable[[], None] = lambda: None,
    ) -> None:
        self.config = SimpleNamespace(
            model_name="fake",
            max_model_len=max_model_len,
            max_num_seqs=max_num_seqs,
            speculative=SimpleNamespace(num_speculative_tokens=6),
        )
        self.tokenizer = ByteTokenizer()
        self.stats = EngineStats(accepted_per_pos=[0] * 6)
        self.script = script
        self.burst = burst
        self.before_step = before_step
        self.refuse: str | None = None
        self.aborted: list[str] = []
        self.seen: list[tuple] = []
        self._running: dict[str, _Running] = {}
        self._thread: int | None = None

    def add(self, request_id, prompt_token_ids, params, *, cache_salt=None) -> None:
        self._same_thread()
        assert request_id not in self._running
        if self.refuse == request_id.rpartition("-")[2]:
            raise ValueError("the fake refuses it")
        self.seen.append((request_id, tuple(prompt_token_ids), params, cache_salt))
        self._running[request_id] = _Running(tuple(prompt_token_ids), params)

    def abort(self, request_id) -> None:
        self._same_thread()
        if self._running.pop(request_id, None) is not None:
            self.aborted.append(request_id)

    def has_unfinished(self) -> bool:
        return bool(self._running)

    def step(self) -> list[RequestOutput]:
        self._same_thread()
        if self._running:
            self.before_step()
        chosen = list(self._running.items())[: self.config.max_num_seqs]
        outputs = [self._advance(request_id, running) for request_id, running in chosen]
        stats = self.stats
        stats.running = min(len(self._running), self.config.max_num_seqs)
        stats.waiting = len(self._running) - stats.running
        stats.kv_cache_usage = stats.running / self.config.max_num_seqs
        stats.launches_per_step = 4
        return outputs

    def _advance(self, request_id: str, running: _Running) -> RequestOutput:
        params, done = running.params, len(running.output)
        first = not done
        count = 1 if first else 1 + (done + len(running.prompt)) % self.burst
        tokens = expected_tokens(running.prompt, count, done)
        if self.script is not None:
            tokens = [*self.script[done : done + count], *[EOS] * count][:count]
        new, reason, stop_reason = [], None, None
        for place, token in enumerate(tokens[: params.max_tokens - done], done):
            new.append(token)
            if place + 1 > params.min_tokens:
                if token == EOS and not params.ignore_eos:
                    reason = FinishReason.STOP
                elif token in params.stop_token_ids:
                    reason, stop_reason = FinishReason.STOP, token
            if reason:
                break
        running.output += new
        if reason is None and len(running.output) == params.max_tokens:
            reason = FinishReason.LENGTH
        if reason is not None:
            del self._running[request_id]
        self._count(first, running, new)
        prompt_logprobs = ()
        if first and params.prompt_logprobs is not None:
            prompt_logprobs = (None, *_logprobs(running.prompt[1:], params.prompt_logprobs))
        return RequestOutput(
            request_id=request_id,
            token_ids=tuple(new),
            logprobs=() if params.logprobs is None else _logprobs(new, params.logprobs),
            prompt_logprobs=prompt_logprobs,
            finish_reason=reason,
            stop_reason=stop_reason,
        )

    def _count(self, first: bool, running: _Running, new: list[int]) -> None:
        stats = self.stats
        stats.generation_tokens += len(new)
        if first:
            stats.prompt_tokens += len(running.prompt)
            stats.prefix_cache_queries += len(running.prompt)
        else:
            stats.num_drafts += 1
            stats.num_draft_tokens += 6
            stats.num_accepted_tokens += len(new) - 1
            for position in range(len(new) - 1):
                stats.accepted_per_pos[position] += 1

    def _same_thread(self) -> None:
        here = threading.get_ident()
        self._thread = self._thread or here
        assert here == self._thread, "the engine was called from two threads"


def _logprobs(tokens: Sequence[int], num_top: int) -> tuple[TokenLogprobs, ...]:
    """Token t has log-probability -t / 100; the likeliest are t, t + 1, ..."""
    return tuple(
        TokenLogprobs(token, -token / 100, tuple((token + i, -(token + i) / 100) for i in range(num_top)))
        for token in tokens
    )
