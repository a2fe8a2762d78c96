"""Which drafts are verified."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from onelaunch.engine.sampling import allocate_drafts


def brute_force(confidence: list[list[float]], num_drafts: list[int], budget: int) -> list[int]:
    """Take the likeliest next draft of any request, one at a time."""
    taken = [0] * len(num_drafts)
    survival = [1.0] * len(num_drafts)
    for _ in range(budget):
        best = None
        for request, count in enumerate(taken):
            if count < num_drafts[request]:
                value = survival[request] * confidence[request][count]
                if best is None or (value, -count) > best[:2]:
                    best = (value, -count, request)
        if best is None:
            break
        survival[best[2]] = best[0]
        taken[best[2]] += 1
    return taken


# Powers of two: products are exact, and equal ones common.
confidences = st.lists(
    st.lists(st.sampled_from([1.0, 0.5, 0.25, 0.0]), min_size=4, max_size=4), min_size=1, max_size=6
)


@given(confidences, st.data())
@settings(max_examples=300, deadline=None)
def test_the_budget_goes_to_the_likeliest(confidence, data):
    num_drafts = [data.draw(st.integers(0, 4)) for _ in confidence]
    budget = data.draw(st.integers(0, 30))
    got = allocate_drafts(torch.tensor(confidence), torch.tensor(num_drafts), torch.tensor(budget))
    assert got.tolist() == brute_force(confidence, num_drafts, budget)


@given(confidences, st.integers(0, 12), st.integers(0, 3))
@settings(max_examples=100, deadline=None)
def test_a_draft_is_chosen_without_regard_to_those_after_it(confidence, budget, place):
    available = torch.full((len(confidence),), 4)
    before = allocate_drafts(torch.tensor(confidence), available, budget)
    other = torch.tensor(confidence)
    other[0, place + 1 :] = 1 - other[0, place + 1 :]
    after = allocate_drafts(other, available, budget)
    assert (before[0] > place) == (after[0] > place)


def test_what_lies_past_a_requests_drafts_makes_no_difference():
    confidence = torch.tensor([[0.9, torch.nan, torch.nan], [0.8, 0.8, torch.nan]])
    assert allocate_drafts(confidence, torch.tensor([1, 2]), 2).tolist() == [1, 1]


def test_a_budget_for_all_takes_all():
    num_drafts = torch.tensor([3, 0, 1])
    assert allocate_drafts(torch.rand(3, 3), num_drafts, 4).tolist() == [3, 0, 1]
