"""What may be said of two arms after R rounds of n runs.

The unit is the round. Runs on one server share its memory layout, its autotuned kernels and its devices'
clocks: they vary less than servers do. So the n runs of a server are one observation, their mean, and R
rounds give R differences, change - base, however large n is.

Halves (or turns, without halves) are swapped each round, so a faster half is added to every other difference
and taken from the rest. The mean of an even number of rounds is free of it. So is the scatter, which is taken
within the rounds of equal places: R - 2 degrees of freedom.

Two intervals of the mean difference are made of that. The t-interval is exact for normal noise. The paired
bootstrap resamples whole rounds, within equal places, and assumes no shape. But resampled means scatter by
sqrt((R - 2) / R) less than real ones, and a percentile ignores how badly a few rounds tell their scatter: its
distance from the mean is widened by t / z * sqrt(R / (R - 2)), after Hesterberg, "What Teachers Should Know
About the Bootstrap" (2015). A difference is claimed only where neither interval holds 0.

The confidence is that of the whole table: with K points each interval has 1 - (1 - confidence) / K
(Bonferroni). Otherwise a comparison of many points would find a difference in one of them by chance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

# Equal arms are told apart in 1 of 40 comparisons. At the usual 95% it would be 1 of 20.
CONFIDENCE = 0.975
_RESAMPLES = 20_000

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Interval:
    """Of the mean difference, in microseconds."""

    low: float
    high: float

    def has_zero(self) -> bool:
        """Whether no difference is among what it allows."""
        return self.low <= 0 <= self.high


@dataclass(frozen=True, slots=True)
class Summary:
    """Two arms at one point; microseconds, change - base.

    Attributes:
        base, change: mean of each round's runs [R].
        delta, delta_percent: of the means; percent of base.
        run_spread: each arm's standard deviation of runs on one server, pooled; None with one run.
        move: each arm's mean at place 1 - at place 0: the second half or turn against the first.
        confidence: of each interval.
        bootstrap, t: intervals of ``delta``; None with two rounds, which tell nothing about their scatter.
        verdict: "faster", "slower" (of change), "inside the noise" or "too few rounds".
    """

    base: tuple[float, ...]
    change: tuple[float, ...]
    delta: float
    delta_percent: float
    run_spread: tuple[float, float] | None
    move: tuple[float, float]
    confidence: float
    bootstrap: Interval | None
    t: Interval | None
    verdict: str


def summarize(
    base: Sequence[Sequence[float]],
    change: Sequence[Sequence[float]],
    places: Sequence[int],
    *,
    num_points: int = 1,
) -> Summary:
    """Compare two arms at one point.

    Args:
        base, change: runs of each round in microseconds [R][n], lower being better.
        places: where base was in each round [R]: 0 or 1, each equally often. Change was at the other.
        num_points: of the whole comparison, all of which may be claimed.

    Raises:
        ValueError: the shapes do not fit, or a place is more frequent than the other.
    """
    runs = (np.asarray(base, dtype=np.float64), np.asarray(change, dtype=np.float64))
    where = np.asarray(places)
    if runs[0].ndim != 2 or runs[0].shape != runs[1].shape or len(where) != len(runs[0]):
        raise ValueError("base, change and places must have equal numbers of rounds and of runs")
    if len(where) == 0 or np.sum(where == 0) != np.sum(where == 1) or not np.isin(where, (0, 1)).all():
        raise ValueError(f"places is {list(places)}: 0 and 1 must be in it equally often, and nothing else")
    means = [one.mean(axis=1) for one in runs]
    differences = means[1] - means[0]
    delta = float(differences.mean())
    confidence = 1 - (1 - CONFIDENCE) / num_points
    t = bootstrap = None
    if len(where) > 2:
        factor = _t_quantile(confidence, len(where) - 2)
        t = _t_interval(differences, where, factor)
        bootstrap = _bootstrap_interval(differences, where, factor, confidence)
    return Summary(
        base=tuple(means[0].tolist()),
        change=tuple(means[1].tolist()),
        delta=delta,
        delta_percent=100 * delta / float(means[0].mean()),
        run_spread=_run_spread(runs[0], runs[1]),
        move=(_move(means[0], where), _move(means[1], 1 - where)),
        confidence=confidence,
        bootstrap=bootstrap,
        t=t,
        verdict=_verdict(delta, bootstrap, t),
    )


def _verdict(delta: float, bootstrap: Interval | None, t: Interval | None) -> str:
    if bootstrap is None or t is None:
        return "too few rounds"
    if bootstrap.has_zero() or t.has_zero():
        return "inside the noise"
    return "faster" if delta < 0 else "slower"


def _t_quantile(confidence: float, degrees: int) -> float:
    from scipy.stats import t

    return float(t.ppf((1 + confidence) / 2, degrees))


def _t_interval(differences: Array, places: NDArray[np.int_], factor: float) -> Interval:
    squares = sum(
        float(np.square(differences[places == place] - differences[places == place].mean()).sum())
        for place in (0, 1)
    )
    rounds = len(differences)
    error = math.sqrt(squares / (rounds - 2) / rounds)
    middle = float(differences.mean())
    return Interval(middle - factor * error, middle + factor * error)


def _bootstrap_interval(
    differences: Array, places: NDArray[np.int_], factor: float, confidence: float
) -> Interval:
    generator = np.random.default_rng(0)  # the same data must give the same report
    half = len(differences) // 2
    drawn = [
        generator.choice(differences[places == place], size=(_RESAMPLES, half)).mean(axis=1)
        for place in (0, 1)
    ]
    middle = float(differences.mean())
    off = np.mean(drawn, axis=0) - middle
    low, high = np.quantile(off, [(1 - confidence) / 2, (1 + confidence) / 2])
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    widened = factor / z * math.sqrt(len(differences) / (len(differences) - 2))
    return Interval(middle + widened * float(low), middle + widened * float(high))


def _run_spread(base: Array, change: Array) -> tuple[float, float] | None:
    if base.shape[1] < 2:
        return None
    spreads = [float(np.sqrt(runs.var(axis=1, ddof=1).mean())) for runs in (base, change)]
    return spreads[0], spreads[1]


def _move(means: Array, places: NDArray[np.int_]) -> float:
    return float(means[places == 1].mean() - means[places == 0].mean())
