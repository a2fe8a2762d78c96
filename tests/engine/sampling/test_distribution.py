"""Probabilities and samples."""

from __future__ import annotations

import pytest
import torch
from scipy import stats

from onelaunch.engine.sampling import probabilities, sample, token_logprobs, uniform

LOGITS = torch.tensor([[1.0, 3.0, 2.0, 0.0]])


def of(**given) -> list[float]:
    values = {
        "temperature": torch.tensor([float(given.get("temperature", 1))]),
        "top_k": torch.tensor([given.get("top_k", 0)], dtype=torch.int32),
        "top_p": torch.tensor([float(given.get("top_p", 1))]),
    }
    return probabilities(LOGITS, **values)[0].tolist()


def test_temperature_divides_logits_and_zero_is_greedy():
    assert of() == pytest.approx(LOGITS[0].softmax(-1).tolist())
    assert of(temperature=2) == pytest.approx((LOGITS[0] / 2).softmax(-1).tolist())
    assert of(temperature=0) == [0, 1, 0, 0]
    assert of(temperature=0, top_k=2, top_p=0.5) == [0, 1, 0, 0]


@pytest.mark.parametrize("temperature", [1e-5, 1e-30, 1e-42])  # small, overflowing, not even normal
def test_a_tiny_temperature_is_as_good_as_greedy(temperature):
    logits = torch.tensor([[-torch.inf, 300.0, 299.9, -300.0]])
    assert probabilities(logits, torch.tensor([temperature]))[0].tolist() == [0, 1, 0, 0]


def test_the_first_of_equal_logits_is_greedy():
    tied = torch.tensor([[2.0, 5.0, 5.0]])
    assert probabilities(tied, torch.zeros(1))[0].tolist() == [0, 1, 0]


def test_top_k_keeps_the_k_likeliest():
    assert [p > 0 for p in of(top_k=2)] == [False, True, True, False]
    assert sum(of(top_k=2)) == pytest.approx(1)
    assert of(top_k=10) == pytest.approx(of())


def test_top_p_keeps_the_fewest_that_reach_it():
    # 0.644, 0.237, 0.087, 0.032
    assert [p > 0 for p in of(top_p=0.6)] == [False, True, False, False]
    assert [p > 0 for p in of(top_p=0.7)] == [False, True, True, False]
    assert [p > 0 for p in of(top_p=0.95)] == [True, True, True, False]
    assert of(top_p=1e-6) == [0, 1, 0, 0]


def test_top_p_counts_what_top_k_left():
    # of 0.731 and 0.269
    assert [p > 0 for p in of(top_k=2, top_p=0.7)] == [False, True, False, False]
    assert [p > 0 for p in of(top_k=2, top_p=0.8)] == [False, True, True, False]


def test_a_row_that_keeps_all_keeps_its_tail():
    logits = torch.randn(1, 8192, generator=torch.Generator().manual_seed(0)) * 8
    both = torch.tensor([1.0]), torch.tensor([0], dtype=torch.int32), torch.tensor([1.0])
    assert torch.equal(probabilities(logits, *both) > 0, logits.softmax(-1) > 0)


def test_samples_follow_their_weights():
    weights = torch.tensor([0.5, 0.0, 1.5, 1.0, 0.01]).expand(40_000, -1)
    drawn = sample(weights, uniform(torch.arange(40_000), torch.zeros(40_000, dtype=torch.int64), 0, 5))
    counts = torch.bincount(drawn, minlength=5)
    assert counts[1] == 0
    seen = [0, 2, 3, 4]
    expected = weights[0, seen] / weights[0].sum() * 40_000
    assert (
        stats.chisquare(counts[seen].double(), expected.double() * 40_000 / expected.double().sum()).pvalue
        > 1e-3
    )


def test_a_row_of_one_weight_gives_it_whatever_the_number():
    u = torch.tensor([2.0**-40, 2.0**-24, 0.5, 1 - 2.0**-24])
    u = torch.cartesian_prod(u, u, u)
    for token in range(3):
        weights = torch.nn.functional.one_hot(torch.tensor(token), 3).float() * 1e-20
        assert bool((sample(weights.expand(len(u), 3), u) == token).all())


def test_a_token_of_tiny_weight_has_its_chance():
    # Its clock strikes at u / weight: 2**-33 is soon enough against 1 at a weight of 2**-32, 2**-31 is not.
    weights = torch.tensor([1.0, 2.0**-32]).expand(2, 2)
    u = torch.tensor([[0.6321206, 2.0**-33], [0.6321206, 2.0**-31]])
    assert sample(weights, u).tolist() == [1, 0]


def test_logprobs_are_those_of_the_given_tokens_and_the_best():
    own, ids, best = token_logprobs(LOGITS, torch.tensor([2]), 3)
    whole = LOGITS.log_softmax(-1)[0]
    assert own.tolist() == pytest.approx([float(whole[2])])
    assert ids.tolist() == [[1, 2, 0]]
    assert best[0].tolist() == pytest.approx(whole[[1, 2, 0]].tolist())
    assert token_logprobs(LOGITS, torch.tensor([2]), 0)[1].shape == (1, 0)
