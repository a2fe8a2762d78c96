"""Random numbers by counter."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from onelaunch.engine.sampling.noise import ACCEPT, DRAFT, TARGET, uniform

SEEDS = torch.arange(64)
POSITIONS = torch.arange(64).expand(64, 64)
KNOWN = [[8079212.5, 15607634.0], [983738.0, 14008518.0]]  # in units of 2**-24


def by_hand(seed: int, position: int, stream: int) -> float:
    """SplitMix64's finaliser in Python's own integers."""
    golden, mask = 0x9E3779B97F4A7C15, 2**64 - 1

    def mix(x: int) -> int:
        x &= mask
        x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & mask
        x = (x ^ x >> 27) * 0x94D049BB133111EB & mask
        return x ^ x >> 31

    n = mix(mix(seed + golden * (stream + 1)) + position * golden) >> 24
    return min(float(np.float32((n + 1) / 2**40)), 1 - 2**-24)


@pytest.mark.parametrize("stream", [TARGET, ACCEPT, DRAFT, DRAFT + 5])
def test_numbers_are_these_on_every_machine(stream):
    seeds, positions = [0, 1, -(2**63), 2**63 - 1, 12345], [0, 1, 7, 2**20]
    u = uniform(torch.tensor(seeds), torch.tensor([positions] * len(seeds)), stream)
    assert u.tolist() == [[by_hand(seed, position, stream) for position in positions] for seed in seeds]


def test_numbers_are_these():
    u = uniform(torch.tensor([0, 12345]), torch.tensor([[0, 1], [2**20, 7]]), DRAFT)
    assert (u * 2**24).tolist() == KNOWN


def test_small_numbers_are_finer_than_large_ones_and_one_is_never_reached():
    # The smallest of the first 2**27 positions, and one of the dozen that round to 1.
    u = uniform(torch.zeros(1, dtype=torch.int64), torch.tensor([[7_925_056, 26_683_239]]), TARGET)
    assert u.tolist() == [[704 / 2**40, 1 - 2**-24]]


def test_numbers_are_uniform_and_never_zero_or_one():
    u = uniform(SEEDS, POSITIONS, TARGET, 64).flatten()
    assert 0 < float(u.min()) <= float(u.max()) < 1
    counts = torch.histc(u, 256, 0, 1).numpy()
    assert stats.chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize(
    "other",
    [
        lambda: uniform(SEEDS, POSITIONS, DRAFT, 64),
        lambda: uniform(SEEDS, POSITIONS, ACCEPT, 64),
        lambda: uniform(SEEDS, POSITIONS, DRAFT + 1, 64),
        lambda: uniform(SEEDS, POSITIONS + 1, TARGET, 64),
        lambda: uniform(SEEDS + 1, POSITIONS, TARGET, 64),
        lambda: uniform(SEEDS, POSITIONS, TARGET, 65)[..., 1:],
    ],
    ids=["draft", "accept", "next place", "position", "seed", "column"],
)
def test_neighbours_have_nothing_in_common(other):
    mine, others = uniform(SEEDS, POSITIONS, TARGET, 64).flatten(), other().flatten()
    assert float((mine == others).float().mean()) < 1e-4
    r, _ = stats.pearsonr(mine.numpy(), others.numpy())
    assert abs(r) < 5 / len(mine) ** 0.5


def test_a_number_follows_from_its_own_seed_position_and_column_alone():
    alone = uniform(SEEDS[7:8], POSITIONS[7:8, 9:10], DRAFT, 5)
    assert alone.flatten().equal(uniform(SEEDS, POSITIONS, DRAFT, 64)[7, 9, :5])
