"""Acceptance lengths: the probability solved for a mean, and what is drawn from it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from onelaunch.traffic.acceptance import Acceptance


@pytest.mark.parametrize("draft_tokens", [1, 2, 6, 16])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.48, 0.9, 1.0])
def test_the_probability_gives_the_mean(draft_tokens, share):
    mean = 1 + share * draft_tokens
    p = Acceptance(mean, draft_tokens).probability
    assert 0 <= p <= 1
    assert 1 + sum(p**i for i in range(1, draft_tokens + 1)) == pytest.approx(mean, abs=1e-12)


def test_draws_have_the_mean_and_each_position_the_same_conditional_probability():
    acceptance = Acceptance(3.87, 6)
    n = 200_000
    lengths = acceptance.draw(np.random.default_rng(0), n)
    assert lengths.dtype == np.int64
    assert lengths.min() == 1 and lengths.max() == 7
    assert lengths.mean() == pytest.approx(3.87, abs=5 * lengths.std() / math.sqrt(n))
    for i in range(1, 7):
        reached = lengths >= i
        assert (lengths > i).sum() / reached.sum() == pytest.approx(acceptance.probability, abs=0.01)


@pytest.mark.parametrize(("mean", "length"), [(1.0, 1), (7.0, 7)])
def test_the_ends_of_the_range_are_exact(mean, length):
    assert (Acceptance(mean, 6).draw(np.random.default_rng(0), 1000) == length).all()


@pytest.mark.parametrize("mean", [0.99, 7.01, -1, math.nan, math.inf])
def test_a_mean_no_draft_can_have_is_refused(mean):
    with pytest.raises(ValueError, match=r"mean_length is .* between 1 and 7"):
        Acceptance(mean, 6)


def test_a_draft_without_tokens_is_refused():
    with pytest.raises(ValueError, match="draft_tokens is 0"):
        Acceptance(1.0, 0)
