"""Names of block contents, so that requests with the same beginning share blocks."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np


class PrefixKeys:
    """A key for every full stretch of ``block_tokens`` tokens: it names these tokens and all before them.

    A block's keys and values depend on the whole sequence up to it, so a key is chained from the one before.
    Requests with different salts share nothing: that keeps one user from learning, by timing, what another
    asked.
    """

    def __init__(self, block_tokens: int, salt: str | None) -> None:
        self._block_tokens = block_tokens
        self._keys: list[bytes] = []
        self._last = hashlib.sha256(b"" if salt is None else b"salt " + salt.encode()).digest()

    def up_to(self, tokens: Sequence[int]) -> list[bytes]:
        """Keys of the full stretches of ``tokens``, which must go on from those of the last call."""
        for start in range(len(self._keys) * self._block_tokens, len(tokens), self._block_tokens):
            stretch = tokens[start : start + self._block_tokens]
            if len(stretch) < self._block_tokens:
                break
            self._last = hashlib.sha256(self._last + np.asarray(stretch, np.int64).tobytes()).digest()
            self._keys.append(self._last)
        return self._keys
