"""How many tokens of a draft the target accepts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_BISECTIONS = 60  # halves [0, 1] to below the spacing of doubles near 1


class Acceptance:
    """Draws acceptance lengths: tokens a verified draft yields, the accepted ones and one more.

    Each draft token is accepted with the same probability p, given that all before it were, so a
    length of at least 1 + i has probability p^i. p is solved from the mean::

        mean_length = 1 + p + p^2 + ... + p^k,   k = draft_tokens

    With the default mean of 3.87 and k = 6, p is 0.79.

    Args:
        mean_length: between 1 (nothing is ever accepted) and ``draft_tokens + 1`` (everything is).
        draft_tokens: k, at least 1.

    Attributes:
        probability: p.

    Raises:
        ValueError: an argument is out of range.
    """

    def __init__(self, mean_length: float = 3.87, draft_tokens: int = 6) -> None:
        if draft_tokens < 1:
            raise ValueError(f"draft_tokens is {draft_tokens}: a draft has at least 1 token")
        if not 1 <= mean_length <= draft_tokens + 1:  # also false for nan
            raise ValueError(
                f"mean_length is {mean_length}: the mean acceptance length of a draft of {draft_tokens} "
                f"tokens lies between 1 and {draft_tokens + 1}"
            )
        self.mean_length = mean_length
        self.draft_tokens = draft_tokens
        self.probability = _solve(mean_length, draft_tokens)
        self._at_least = self.probability ** np.arange(1, draft_tokens + 1)  # [k], P(accepted >= i)

    def draw(self, rng: np.random.Generator, n: int) -> NDArray[np.int64]:
        """Draw ``n`` lengths: [n] int64, each from 1 to ``draft_tokens + 1``."""
        # rng.random() is in [0, 1): p = 0 accepts nothing and p = 1 everything, exactly.
        accepted: NDArray[np.int64] = (rng.random((n, 1)) < self._at_least).sum(axis=1, dtype=np.int64)
        return 1 + accepted


def _solve(mean_length: float, draft_tokens: int) -> float:
    """p in [0, 1] with ``1 + sum(p^i, i = 1..k) = mean_length``; the sum rises with p."""
    if mean_length == draft_tokens + 1:
        return 1.0
    powers = np.arange(draft_tokens + 1)
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if (middle**powers).sum() <= mean_length:
            low = middle
        else:
            high = middle
    return low
