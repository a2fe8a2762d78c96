"""Text from tokens as they come: never half a character, never a part of a stop string."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

_REPLACEMENT = "\ufffd"
_LONG_WINDOW = 64  # tokens: bytes that are no text could hold it open for ever


class Decoder(Protocol):
    """The part of a tokenizer that makes text."""

    def decode(self, token_ids: Sequence[int]) -> str: ...


class Detokenizer:
    """The text of a growing list of tokens.

    All that ``add`` and ``flush`` returned, joined, is what the tokenizer makes of all tokens at once. Only a
    window of the last tokens is decoded again. It begins with tokens whose text is out already, as some
    tokenizers write a token differently at the beginning of a text.

    Attributes:
        num_chars: returned so far.
    """

    def __init__(self, decoder: Decoder) -> None:
        self.num_chars = 0
        self._decoder = decoder
        self._window: list[int] = []
        self._num_context = 0  # tokens of the window whose text is out
        self._context_chars = 0  # in their text
        self._out_chars = 0  # after it, of the text that is out
        self._held = ""

    def add(self, token_id: int) -> str:
        """The text that is certain with ``token_id``, so without the bytes of an incomplete character."""
        self._window.append(token_id)
        text = self._decoder.decode(self._window)[self._context_chars :]
        # Such bytes show as one U+FFFD at the end. Every U+FFFD before it is for good: the bytes that follow
        # have shown that they don't complete it.
        certain = text.removesuffix(_REPLACEMENT)
        self._held = text[len(certain) :]
        new = certain[self._out_chars :]
        self._out_chars = len(certain)
        if not self._held:
            del self._window[: self._num_context]
            self._num_context = len(self._window)
            self._context_chars = len(self._decoder.decode(self._window))
            self._out_chars = 0
        elif len(self._window) > _LONG_WINDOW:
            self._shorten()
        self.num_chars += len(new)
        return new

    def _shorten(self) -> None:
        """Keep the end of a window that does not come to an end of a character."""
        window = self._window[-_LONG_WINDOW // 2 :]
        text = self._decoder.decode(window)
        if text.endswith(self._held):
            self._window = window
            self._num_context = self._context_chars = 0
            self._out_chars = len(text) - len(self._held)

    def flush(self) -> str:
        """What was held back, now that no token follows."""
        held, self._held = self._held, ""
        self.num_chars += len(held)
        return held


class StopStrings:
    """Finds the first stop string in a text that comes in pieces.

    Args:
        stop: the strings, none empty.
        included: the string stays in the text.
    """

    def __init__(self, stop: Sequence[str], *, included: bool = False) -> None:
        self._stop = stop
        self._included = included
        self._held = ""

    def add(self, text: str) -> tuple[str, str | None]:
        """The text that may be shown with ``text`` added, and the stop string that ends it, if one does."""
        text = self._held + text
        found = min(((place, stop) for stop in self._stop if (place := text.find(stop)) >= 0), default=None)
        if found is not None:
            place, stop = found
            self._held = ""
            return text[: place + len(stop)] if self._included else text[:place], stop
        keep = max((_overlap(text, stop) for stop in self._stop), default=0)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep], None

    def flush(self) -> str:
        """What was held back, now that no text follows."""
        held, self._held = self._held, ""
        return held


def _overlap(text: str, stop: str) -> int:
    """Characters at the end of ``text`` that a stop string may begin with."""
    longest = min(len(stop) - 1, len(text))
    return next((count for count in range(longest, 0, -1) if text.endswith(stop[:count])), 0)
