"""Verification: the output's distribution is the target's, whatever the draft proposes."""

from __future__ import annotations

import itertools

import pytest
import torch
from scipy import stats

from onelaunch.engine.sampling import Verifier, sample, uniform
from onelaunch.engine.sampling.acceptance import synthetic_rate
from onelaunch.engine.sampling.noise import DRAFT

V, K, N = 3, 2, 60_000


def tree(seed: int, sharpness: float = 1.5) -> list[torch.Tensor]:
    """Distributions of a first, a second and a third token, each given the ones before: [V], [V, V], [V, V,
    V].
    """
    generator = torch.Generator().manual_seed(seed)
    return [(torch.randn(*[V] * (n + 1), generator=generator) * sharpness).softmax(-1) for n in range(K + 1)]


def along(trees: list[torch.Tensor], tokens: torch.Tensor, places: int) -> torch.Tensor:
    """[N, places, V]: each row's distributions given its own tokens before."""
    rows = [trees[0].expand(len(tokens), V), trees[1][tokens[:, 0]]]
    if places > 2:
        rows.append(trees[2][tokens[:, 0], tokens[:, 1]])
    return torch.stack(rows[:places], 1)


def outputs(method: str, *, greedy_draft: bool, num_drafts: torch.Tensor, seed: int = 1) -> torch.Tensor:
    """The first three tokens of N sequences, each by as many steps as it takes."""
    target, draft = tree(seed), tree(seed + 10)
    seeds = torch.arange(N)
    drafted = torch.zeros(N, K, dtype=torch.int64)
    for place in range(K):
        probs = along(draft, drafted, K)[:, place]
        u = uniform(seeds, torch.full((N,), 100 + place), DRAFT, V)
        drafted[:, place] = probs.argmax(-1) if greedy_draft else sample(probs, u)
    verified = Verifier(method, K).verify(
        drafted,
        None if greedy_draft else along(draft, drafted, K),
        along(target, drafted, K + 1),
        num_drafts,
        seeds,
        torch.full((N,), 100),
    )
    tokens = verified.token_ids.clone()
    assert torch.equal((tokens >= 0).sum(1), verified.num_accepted + 1)
    for place in range(K + 1):  # go on without drafts
        probs = along(target, tokens.clamp(min=0), K + 1)[:, place]
        u = uniform(seeds, torch.full((N,), 500 + place), 7, V)
        tokens[:, place] = tokens[:, place].where(tokens[:, place] >= 0, sample(probs, u))
    return tokens


def pvalue(tokens: torch.Tensor, seed: int = 1) -> float:
    target = tree(seed)
    want = torch.stack(
        [
            target[0][a] * target[1][a, b] * target[2][a, b, c]
            for a, b, c in itertools.product(range(V), repeat=3)
        ]
    ).double()
    counts = torch.bincount(tokens @ torch.tensor([V * V, V, 1]), minlength=V**3).double()
    return float(stats.chisquare(counts, want / want.sum() * len(tokens)).pvalue)


ALL = torch.full((N,), K)
MIXED = torch.arange(N) % (K + 1)


@pytest.mark.parametrize("method", ["block", "standard"])
@pytest.mark.parametrize("greedy_draft", [True, False])
@pytest.mark.parametrize("num_drafts", [ALL, MIXED], ids=["all", "some"])
def test_outputs_are_distributed_as_the_targets(method, greedy_draft, num_drafts):
    assert pvalue(outputs(method, greedy_draft=greedy_draft, num_drafts=num_drafts)) > 1e-3


def test_the_test_above_notices_a_bias():
    tokens = outputs("block", greedy_draft=False, num_drafts=ALL)
    tokens[: N // 50, 0] = 0
    assert pvalue(tokens) < 1e-6
    assert pvalue(outputs("standard", greedy_draft=False, num_drafts=ALL * 0)) > 1e-3


def accepted(method: str, seed: int, sharpness: float) -> float:
    target, draft = tree(seed, sharpness), tree(seed + 10, sharpness)
    seeds = torch.arange(N)
    drafted = torch.zeros(N, K, dtype=torch.int64)
    for place in range(K):
        u = uniform(seeds, torch.full((N,), 100 + place), DRAFT, V)
        drafted[:, place] = sample(along(draft, drafted, K)[:, place], u)
    verified = Verifier(method, K).verify(
        drafted, along(draft, drafted, K), along(target, drafted, K + 1), ALL, seeds, torch.full((N,), 100)
    )
    return float(verified.num_accepted.double().mean())


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_block_verification_accepts_no_fewer_than_token_by_token(seed):
    assert accepted("block", seed, 1.0) > accepted("standard", seed, 1.0) - 3 / N**0.5


def one_hot(tokens: list[int]) -> torch.Tensor:
    return torch.nn.functional.one_hot(torch.tensor(tokens), V).float()


@pytest.mark.parametrize("method", ["block", "standard"])
@pytest.mark.parametrize("probabilistic", [True, False])
def test_greedy_targets_accept_exactly_the_prefix_that_they_would_have_said(method, probabilistic):
    best = [2, 0, 1]
    drafts = torch.tensor(list(itertools.product(range(V), repeat=K)))
    count = len(drafts)
    probs = torch.full((count, K, V), 1 / V) if probabilistic else None
    target = one_hot(best).expand(count, -1, -1)
    for verified_drafts in range(K + 1):
        got = Verifier(method, K).verify(
            drafts,
            probs,
            target,
            torch.full((count,), verified_drafts),
            torch.arange(count),
            torch.zeros(count).long(),
        )
        for row, draft in enumerate(drafts.tolist()):
            n = 0
            while n < verified_drafts and draft[n] == best[n]:
                n += 1
            assert got.token_ids[row].tolist() == best[: n + 1] + [-1] * (K - n)
            assert got.num_accepted[row] == n


def test_equal_distributions_accept_everything_and_rounding_leaves_something_to_sample():
    probs = torch.tensor([0.1, 0.2, 0.7]).expand(1000, K + 1, V)
    drafts = sample(probs[:, 0], uniform(torch.arange(1000), torch.zeros(1000).long(), DRAFT, V))
    drafts = torch.stack((drafts, drafts), 1)
    for method in ("block", "standard"):
        got = Verifier(method, K).verify(
            drafts, probs[:, :K], probs, torch.full((1000,), K), torch.arange(1000), torch.zeros(1000).long()
        )
        assert int(got.num_accepted.min()) == K


def test_rows_past_the_drafts_are_never_read():
    target = torch.rand(4, K + 1, V).softmax(-1)
    draft = torch.rand(4, K, V).softmax(-1)
    num_drafts = torch.tensor([0, 1, 0, 1])
    args = num_drafts, torch.arange(4), torch.zeros(4).long()
    drafts = torch.zeros(4, K, dtype=torch.int64)
    want = Verifier("block", K).verify(drafts, draft, target, *args)
    spoiled_target, spoiled_draft, spoiled = target.clone(), draft.clone(), drafts.clone()
    for row, n in enumerate(num_drafts.tolist()):
        spoiled_target[row, n + 1 :] = torch.nan
        spoiled_draft[row, n:] = torch.nan
        spoiled[row, n:] = V - 1
    got = Verifier("block", K).verify(spoiled, spoiled_draft, spoiled_target, *args)
    assert torch.equal(got.token_ids, want.token_ids)


def test_without_drafts_one_token_is_sampled():
    target = torch.tensor([[[0.0, 0.0, 1.0]]])
    got = Verifier("standard", 0).verify(
        torch.zeros(1, 0, dtype=torch.int64),
        None,
        target,
        torch.zeros(1).long(),
        torch.ones(1).long(),
        torch.ones(1).long(),
    )
    assert got.token_ids.tolist() == [[2]]


@pytest.mark.parametrize("length", [1.0, 2.5, 3.87, 7.0])
def test_the_synthetic_rate_gives_the_mean_length_asked_for(length):
    rate = synthetic_rate(length, 6)
    assert 1 + sum(rate**i for i in range(1, 7)) == pytest.approx(length)
    count = 20_000
    target = torch.full((count, 7, V), 1 / V)
    got = Verifier("synthetic", 6, length).verify(
        torch.zeros(count, 6, dtype=torch.int64), None, target, torch.full((count,), 6), torch.arange(count),
        torch.zeros(count).long(),
    )  # fmt: skip
    assert float(got.num_accepted.double().mean()) + 1 == pytest.approx(length, abs=0.06)
