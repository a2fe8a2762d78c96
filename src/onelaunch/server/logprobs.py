"""Log-probabilities in the two shapes of OpenAI's API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onelaunch.engine.detokenizer import Decoder
from onelaunch.engine.outputs import TokenLogprobs

_LOWEST = -9999.0  # JSON has no infinity; vLLM's substitute


class TokenNames:
    """How single tokens are written.

    A token that is no text by itself (a part of a character, a special token) is ``token_id:N``, as vLLM has
    it for tokens that JSON can't hold.
    """

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._names: dict[int, str] = {}

    def name(self, token_id: int, as_id: bool = False) -> str:
        if as_id:
            return f"token_id:{token_id}"
        name = self._names.get(token_id)
        if name is None:
            text = self._decoder.decode([token_id])
            name = self._names[token_id] = f"token_id:{token_id}" if not text or "\ufffd" in text else text
        return name


def completion_logprobs(
    names: TokenNames,
    token_ids: Sequence[int],
    entries: Sequence[TokenLogprobs | None],
    offsets: Sequence[int],
    as_ids: bool,
) -> dict[str, Any]:
    """The ``logprobs`` of a completion's choice.

    Args:
        entries: one a token; None for the first of a prompt, which nothing predicts.
        offsets: where each token begins in the text.
    """
    return {
        "tokens": [names.name(token_id, as_ids) for token_id in token_ids],
        "token_logprobs": [None if entry is None else _finite(entry.logprob) for entry in entries],
        "top_logprobs": [None if entry is None else _top(names, entry, as_ids) for entry in entries],
        "text_offset": list(offsets),
    }


def _top(names: TokenNames, entry: TokenLogprobs, as_ids: bool) -> dict[str, float]:
    """The likeliest tokens and the chosen one. One whose text is there already goes by its id."""
    top: dict[str, float] = {}
    for token_id, logprob in _with_chosen(entry):
        name = names.name(token_id, as_ids)
        top[name if name not in top else names.name(token_id, as_id=True)] = _finite(logprob)
    return top


def _with_chosen(entry: TokenLogprobs) -> list[tuple[int, float]]:
    top = list(entry.top)
    if all(token_id != entry.token_id for token_id, _ in top):
        top.append((entry.token_id, entry.logprob))
    return top


def chat_logprobs(names: TokenNames, entries: Sequence[TokenLogprobs], as_ids: bool) -> dict[str, Any]:
    """The ``logprobs`` of a chat's choice."""

    def shown(token_id: int, logprob: float) -> dict[str, Any]:
        name = names.name(token_id, as_ids)
        is_text = not name.startswith("token_id:")
        return {
            "token": name,
            "logprob": _finite(logprob),
            "bytes": list(name.encode()) if is_text else None,
        }

    return {
        "content": [
            {
                **shown(entry.token_id, entry.logprob),
                "top_logprobs": [shown(token_id, logprob) for token_id, logprob in entry.top],
            }
            for entry in entries
        ]
    }


def _finite(logprob: float) -> float:
    return max(logprob, _LOWEST)
