"""The verdict on data whose truth is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from onelaunch.proof.ab import statistics
from onelaunch.proof.ab.statistics import summarize


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch):
    monkeypatch.setattr(statistics, "_RESAMPLES", 4_000)


def comparison(seed, *, rounds, runs, run=0.0, server=0.0, half=0.0, difference=0.0):
    """Two arms of 5 ms a token; noise and differences as parts of it."""
    generator = np.random.default_rng(seed)
    places = np.arange(rounds) % 2

    def arm(shift, where):
        servers = server * generator.standard_normal((rounds, 1))
        noise = run * generator.standard_normal((rounds, runs))
        return 5_000 * (1 + shift + servers + noise + half * where[:, None])

    return arm(0.0, places), arm(difference, 1 - places), places


# Noise of runs alone; of servers, which more runs do not average away; with a half that is 2% slower.
NOISES = {
    "runs": {"run": 0.01},
    "servers": {"run": 0.002, "server": 0.01},
    "halves": {"run": 0.01, "server": 0.003, "half": 0.02},
}


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(("rounds", "runs"), [(4, 3), (6, 1), (10, 5)])  # the fewest, no spread, many
def test_two_equal_arms_are_told_apart_in_at_most_six_of_a_hundred_seeds(noise, rounds, runs):
    verdicts = [
        summarize(*comparison(seed, rounds=rounds, runs=runs, **NOISES[noise])).verdict for seed in range(100)
    ]
    assert sum(verdict == "inside the noise" for verdict in verdicts) >= 94


def test_equal_arms_at_many_points_are_seldom_told_apart_at_any_of_them():
    def claimed(seed):
        points = [comparison(8 * seed + k, rounds=6, runs=3, run=0.01) for k in range(8)]
        return any(summarize(*point, num_points=8).verdict != "inside the noise" for point in points)

    assert sum(map(claimed, range(100))) <= 6


@pytest.mark.parametrize(
    ("noise", "rounds", "runs"),
    [
        ({"run": 0.01}, 10, 10),
        ({"run": 0.01, "half": 0.05}, 10, 10),  # a slower half costs no power
        ({"server": 0.01}, 40, 1),  # 1% between servers takes many of them
    ],
)
def test_a_difference_of_one_percent_in_one_percent_of_noise_is_found(noise, rounds, runs):
    verdicts = [
        summarize(*comparison(seed, rounds=rounds, runs=runs, difference=-0.01, **noise)).verdict
        for seed in range(100)
    ]
    assert sum(verdict == "faster" for verdict in verdicts) >= 95
    assert "slower" not in verdicts


def test_the_intervals_hold_the_true_difference_as_often_as_they_say():
    held = []
    for seed in range(400):
        data = comparison(seed, rounds=6, runs=3, run=0.01, server=0.005, difference=0.02)
        summary = summarize(*data)
        held.append([one.low <= 100 <= one.high for one in (summary.t, summary.bootstrap)])
    # 97.5% of 400 is 390, with a standard error of 3.
    assert (np.sum(held, axis=0) >= 380).all(), np.sum(held, axis=0)


def test_means_deltas_moves_and_spread_are_those_of_the_data():
    base = [[100.0, 102.0], [110.0, 112.0], [100.0, 102.0], [110.0, 112.0]]
    change = [[105.0, 105.0], [95.0, 95.0], [105.0, 105.0], [95.0, 95.0]]
    summary = summarize(base, change, [0, 1, 0, 1])
    assert summary.base == (101, 111, 101, 111)
    assert summary.change == (105, 95, 105, 95)
    assert summary.delta == -6
    assert summary.delta_percent == pytest.approx(-600 / 106)
    assert summary.move == (10, 10)  # both are 10 us slower at place 1
    assert summary.run_spread == pytest.approx((math.sqrt(2), 0))


def test_the_t_interval_is_that_of_the_scatter_within_equal_places():
    base = [[100.0]] * 6
    change = [[v] for v in (101.0, 111.0, 103.0, 113.0, 102.0, 112.0)]
    summary = summarize(base, change, [0, 1] * 3)
    # Off their means by -1, 1, 0 at both places: squares of 4, 4 degrees of freedom; t(0.9875, 4) = 3.4954.
    half_width = 3.4954 * math.sqrt(4 / 4 / 6)
    assert summary.delta == 7
    assert (summary.t.low, summary.t.high) == pytest.approx((7 - half_width, 7 + half_width), abs=1e-3)
    assert summary.verdict == "slower"


def test_a_halves_difference_alone_is_no_difference_of_the_arms():
    places = [0, 1] * 3
    base = [[100.0 + 20 * place + 0.1 * i] for i, place in enumerate(places)]
    change = [[120.0 - 20 * place + 0.1 * i] for i, place in enumerate(places)]
    assert summarize(base, change, places).verdict == "inside the noise"


def test_two_rounds_claim_nothing():
    summary = summarize([[100.0], [100.0]], [[50.0], [50.0]], [0, 1])
    assert summary.verdict == "too few rounds"
    assert summary.t is None and summary.bootstrap is None


def test_nothing_is_claimed_where_the_intervals_disagree():
    disagreed = 0
    for seed in range(200):
        summary = summarize(*comparison(seed, rounds=4, runs=1, run=0.01, difference=0.04))
        if summary.t.has_zero() != summary.bootstrap.has_zero():
            disagreed += 1
            assert summary.verdict == "inside the noise"
    assert disagreed > 0


def test_more_points_widen_every_interval():
    data = comparison(0, rounds=6, runs=3, run=0.01)
    one, many = summarize(*data), summarize(*data, num_points=5)
    for name in ("t", "bootstrap"):
        assert getattr(many, name).low < getattr(one, name).low
        assert getattr(many, name).high > getattr(one, name).high


def test_the_same_data_give_the_same_intervals():
    data = comparison(0, rounds=6, runs=3, run=0.01)
    assert summarize(*data) == summarize(*data)


def test_places_that_are_not_balanced_are_refused():
    with pytest.raises(ValueError, match="equally often"):
        summarize([[1.0]] * 4, [[1.0]] * 4, [0, 0, 0, 1])
    with pytest.raises(ValueError, match="equal numbers"):
        summarize([[1.0]] * 4, [[1.0]] * 2, [0, 1, 0, 1])
