"""Errors and tests of accuracies, against values computed by hand or by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binomtest

from onelaunch.proof.evaluate.statistics import accuracy, mcnemar, paired_difference, wilson


def test_errors_of_one_run():
    found = accuracy([[True] * 9 + [False]], ["a"])
    assert found.mean == pytest.approx(0.9)
    assert found.binomial_error == pytest.approx(math.sqrt(0.9 * 0.1 / 10))
    assert found.run_error is None and found.server_error is None


@pytest.mark.parametrize(("right", "count"), [(0, 40), (40, 40), (9, 12), (1, 1)])
def test_the_interval_of_a_share_is_wilsons(right, count):
    interval = binomtest(right, count).proportion_ci(method="wilson")
    assert wilson(right / count, count) == pytest.approx((interval.low, interval.high), abs=1e-4)


def test_runs_of_one_server_are_one_server():
    right = [[True, True, False, False], [True, False, False, False], [True] * 4, [True] * 4]
    found = accuracy(right, ["a", "a", "b", "b"])
    assert found.mean == pytest.approx(0.6875)
    assert found.run_error == pytest.approx(np.std([0.5, 0.25, 1, 1], ddof=1) / 2)
    assert found.server_error == pytest.approx(np.std([0.375, 1.0], ddof=1) / math.sqrt(2))


@pytest.mark.parametrize(
    ("only_first", "only_second", "p"),
    [(0, 0, 1.0), (5, 5, 1.0), (1, 0, 1.0), (6, 0, 2 / 2**6), (8, 1, 20 / 2**9), (1, 8, 20 / 2**9)],
)
def test_mcnemar_is_the_exact_binomial(only_first, only_second, p):
    first = [True] * only_first + [False] * only_second + [True, False]
    second = [False] * only_first + [True] * only_second + [True, False]
    found = mcnemar(first, second)
    assert (found.only_first, found.only_second) == (only_first, only_second)
    assert found.p == pytest.approx(p)


def test_equal_runs_are_rarely_told_apart():
    rng = np.random.default_rng(0)
    hard = rng.random(400)
    few = sum(
        mcnemar(list(rng.random(400) < hard), list(rng.random(400) < hard)).p < 0.05 for _ in range(200)
    )
    assert few <= 16  # at most 5% are expected, and the exact test is conservative


def test_a_difference_is_measured_over_questions():
    base, change = [[True, False, True, False]], [[True, True, True, False], [True, True, True, True]]
    delta, error = paired_difference(base, change)
    assert delta == pytest.approx(0.375)
    assert error == pytest.approx(np.std([0, 1, 0, 0.5], ddof=1) / 2)
    assert paired_difference([[True]], [[False]]) == (-1.0, None)
