"""Verification: the output's distribution is the target's, whatever the draft proposes."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
from scipy import stats
from torch import Tensor

from onelaunch.engine.sampling import Verified, Verifier, allocate_drafts, sample, uniform, verifier
from onelaunch.engine.sampling.noise import ACCEPT, DRAFT

V, K, LENGTH, N = 3, 3, 4, 60_000
METHODS = ("block", "standard")
NumDrafts = Callable[[Tensor, Tensor], Tensor]


def chain(seed: int, sharpness: float = 1.5) -> Tensor:
    """[V, V, V]: the distribution of a token given the two before it."""
    return (torch.randn(V, V, V, generator=torch.Generator().manual_seed(seed)) * sharpness).softmax(-1)


def all_drafts(position: Tensor, drafts: Tensor) -> Tensor:
    return torch.full_like(position, K)


def some_drafts(position: Tensor, drafts: Tensor) -> Tensor:
    return (torch.arange(len(position)) + position) % (K + 1)


def likely_drafts(position: Tensor, drafts: Tensor) -> Tensor:
    """Half of them, by a confidence that depends on the draft before."""
    before = torch.cat((torch.zeros_like(drafts[:, :1]), drafts[:, :-1]), 1)
    confidence = torch.tensor([0.9, 0.3, 0.6])[before]
    return allocate_drafts(confidence, all_drafts(position, drafts), len(position) * K // 2)


def step(
    method: str,
    target: Tensor,
    draft: Tensor,
    last: list[Tensor],
    seeds: Tensor,
    position: Tensor,
    num_drafts: NumDrafts = all_drafts,
    greedy_draft: bool = False,
) -> Verified:
    """One step of every sequence, ``last`` its two last tokens."""
    last, q, p = [*last], [], [target[last[0], last[1]]]
    for place in range(K):
        q.append(draft[last[-2], last[-1]])
        u = uniform(seeds, position, DRAFT + place, V)
        last.append(q[-1].argmax(-1) if greedy_draft else sample(q[-1], u))
        p.append(target[last[-2], last[-1]])
    drafts = torch.stack(last[2:], 1)
    verified = Verifier(method, K).verify(
        drafts,
        None if greedy_draft else torch.stack(q, 1),
        torch.stack(p, 1),
        num_drafts(position, drafts),
        seeds,
        position,
    )
    assert torch.equal((verified.token_ids >= 0).sum(1), verified.num_accepted + 1)
    return verified


def outputs(
    method: str, num_drafts: NumDrafts = all_drafts, greedy_draft: bool = False, seed: int = 1
) -> Tensor:
    """[N, LENGTH] tokens of N sequences, each by as many steps as it takes."""
    target, draft = chain(seed), chain(seed + 10)
    tokens = torch.zeros(N, 2 + LENGTH + K, dtype=torch.int64)
    position = torch.full((N,), 2)
    while len(live := (position < 2 + LENGTH).nonzero().squeeze(1)):
        at = position[live]
        last = [tokens[live, at - 2], tokens[live, at - 1]]
        got = step(method, target, draft, last, live, at, num_drafts, greedy_draft)
        for place in range(K + 1):
            said = got.token_ids[:, place] >= 0
            tokens[live[said], at[said] + place] = got.token_ids[said, place]
        position[live] += got.num_accepted + 1
    return tokens[:, 2 : 2 + LENGTH]


def pvalue(tokens: Tensor, seed: int = 1) -> float:
    """Of the chi-square test against the target's distribution of whole sequences."""
    target = chain(seed).double()
    want = torch.ones(V**LENGTH, dtype=torch.float64)
    for index, sequence in enumerate(itertools.product(range(V), repeat=LENGTH)):
        for a, b, c in zip((0, 0, *sequence), (0, *sequence), sequence, strict=False):
            want[index] *= target[a, b, c]
    counts = torch.bincount(tokens @ V ** torch.arange(LENGTH - 1, -1, -1), minlength=V**LENGTH).double()
    want *= len(tokens) / want.sum()
    rare = want < 8  # too few for the test one by one: one cell for all
    cells = [torch.cat((x[~rare], x[rare].sum()[None])) for x in (counts, want)]
    return float(stats.chisquare(*cells).pvalue)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("greedy_draft", [True, False])
@pytest.mark.parametrize("num_drafts", [all_drafts, some_drafts, likely_drafts])
@pytest.mark.parametrize("seed", [1, 2])
def test_outputs_of_many_steps_are_distributed_as_the_targets(method, greedy_draft, num_drafts, seed):
    assert pvalue(outputs(method, num_drafts, greedy_draft, seed), seed) > 1e-3


def test_the_test_above_notices_a_bias():
    tokens = outputs("block")
    tokens[: N // 50, 0] = 0
    assert pvalue(tokens) < 1e-6


def test_the_test_above_notices_drafts_left_out_for_what_they_are():
    def unliked(position: Tensor, drafts: Tensor) -> Tensor:
        return (drafts != 1).long().cumprod(1).sum(1)

    assert pvalue(outputs("standard", unliked)) < 1e-6


def test_the_test_above_notices_numbers_used_twice(monkeypatch):
    def by_position(seed: Tensor, position: Tensor, stream: int, width: int) -> Tensor:
        if stream != ACCEPT:
            return uniform(seed, position, stream, width)
        return uniform(seed, position[:, None] + torch.arange(width), ACCEPT)

    monkeypatch.setattr(verifier, "uniform", by_position)
    assert pvalue(outputs("block", greedy_draft=True, seed=2), seed=2) < 1e-6


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_block_verification_accepts_no_fewer_than_token_by_token(seed):
    start = [torch.zeros(N, dtype=torch.int64)] * 2
    mean = {}
    for method in METHODS:
        got = step(method, chain(seed), chain(seed + 10), start, torch.arange(N), torch.full((N,), 2))
        mean[method] = float(got.num_accepted.double().mean())
    assert mean["block"] > mean["standard"] - 3 / N**0.5


def one_hot(tokens: list[int]) -> Tensor:
    return torch.nn.functional.one_hot(torch.tensor(tokens), V).float()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("probabilistic", [True, False])
def test_greedy_targets_accept_exactly_the_prefix_that_they_would_have_said(method, probabilistic):
    best = [2, 0, 1, 1]
    drafts = torch.tensor(list(itertools.product(range(V), repeat=K)))
    count = len(drafts)
    probs = torch.full((count, K, V), 1 / V) if probabilistic else None
    target = one_hot(best).expand(count, -1, -1)
    for num_drafts in range(K + 1):
        got = Verifier(method, K).verify(
            drafts,
            probs,
            target,
            torch.full((count,), num_drafts),
            torch.arange(count),
            torch.zeros(count).long(),
        )
        for row, draft in enumerate(drafts.tolist()):
            n = 0
            while n < num_drafts and draft[n] == best[n]:
                n += 1
            assert got.token_ids[row].tolist() == best[: n + 1] + [-1] * (K - n)
            assert got.num_accepted[row] == n


@pytest.mark.parametrize("method", METHODS)
def test_equal_distributions_accept_everything(method):
    probs = torch.tensor([0.1, 0.2, 0.7]).expand(1000, K + 1, V)
    seeds, position = torch.arange(1000), torch.zeros(1000).long()
    drafts = torch.stack([sample(probs[:, 0], uniform(seeds, position, DRAFT + i, V)) for i in range(K)], 1)
    got = Verifier(method, K).verify(drafts, probs[:, :K], probs, torch.full((1000,), K), seeds, position)
    assert int(got.num_accepted.min()) == K


def test_where_rounding_leaves_nothing_the_target_is_sampled():
    # The draft says that the target can't say it, and takes as much of everything else.
    p = torch.tensor([0.0, 0.25, 0.75]).expand(4000, 2, V)
    q = torch.tensor([1e-30, 0.25, 0.75]).expand(4000, 1, V)
    drafts = torch.zeros(4000, 1, dtype=torch.int64)
    for method in METHODS:
        got = Verifier(method, 1).verify(
            drafts, q, p, torch.ones(4000).long(), torch.arange(4000), torch.zeros(4000).long()
        )
        assert int(got.num_accepted.max()) == 0
        assert float((got.token_ids[:, 0] == 1).float().mean()) == pytest.approx(0.25, abs=0.03)
        assert not (got.token_ids[:, 0] == 0).any()


@pytest.mark.parametrize("method", ["block", "standard", "synthetic"])
@pytest.mark.parametrize("greedy_draft", [True, False])
def test_what_lies_past_the_drafts_makes_no_difference(method, greedy_draft):
    generator = torch.Generator().manual_seed(5)
    target = torch.rand(64, K + 1, V, generator=generator).softmax(-1)
    draft = torch.rand(64, K, V, generator=generator).softmax(-1)
    drafts = torch.randint(V, (64, K), generator=generator)
    num_drafts = torch.arange(64) % (K + 1)
    bad_target, bad_draft, bad_drafts = target.clone(), draft.clone(), drafts.clone()
    for row, n in enumerate(num_drafts.tolist()):
        bad_target[row, n + 1 :] = torch.nan
        bad_draft[row, n:] = torch.nan
        bad_drafts[row, n:] = -1 if row % 2 else 10**9

    def verify(drafts: Tensor, draft: Tensor, target: Tensor) -> Verified:
        return Verifier(method, K, 2.5).verify(
            drafts,
            None if greedy_draft else draft,
            target,
            num_drafts,
            torch.arange(64),
            torch.full((64,), 9),
        )

    want, got = verify(drafts, draft, target), verify(bad_drafts, bad_draft, bad_target)
    assert torch.equal(got.token_ids, want.token_ids)
    assert torch.equal(got.num_accepted, want.num_accepted)
    assert bool((got.num_accepted <= num_drafts).all())


def test_without_drafts_one_token_is_sampled():
    target = torch.tensor([[[0.0, 0.0, 1.0]]])
    nothing = torch.zeros(1, 0, dtype=torch.int64)
    one = torch.ones(1).long()
    assert Verifier("standard", 0).verify(nothing, None, target, one - 1, one, one).token_ids.tolist() == [
        [2]
    ]


@pytest.mark.parametrize("length", [1.0, 2.0, 2.5, 3.87, 7.0])  # none, whole, between, all of six
def test_synthetic_steps_have_the_mean_length_asked_for(length):
    count = 20_000
    drafts = torch.randint(V, (count, 6), generator=torch.Generator().manual_seed(3))
    got = Verifier("synthetic", 6, length).verify(
        drafts,
        None,
        torch.full((count, 7, V), 1 / V),
        torch.full((count,), 6),
        torch.arange(count),
        torch.zeros(count).long(),
    )
    assert float(got.num_accepted.double().mean()) + 1 == pytest.approx(length, abs=0.02)
    assert int(got.num_accepted.max() - got.num_accepted.min()) <= 1
    kept = torch.arange(6) < got.num_accepted[:, None]
    assert torch.equal(got.token_ids[:, :6][kept], drafts[kept])
