"""What accuracies of runs, and their differences, are worth.

Runs at temperature 0 on one server repeat most of their answers: they do not tell how much accuracy depends
on the questions. So three errors stand beside each other: binomial, of the choice of questions; of runs; and
of servers, when there are several. Two sides are compared question by question (Miller, "Adding Error Bars to
Evals", arXiv 2411.00640), which takes the questions' difficulty out, and two runs by McNemar's exact test on
the questions that only one of them got right.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

SURE = 1.96  # standard errors of a 95% interval


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Of several runs over the same n questions; shares of 1.

    Attributes:
        mean: over all runs.
        binomial_error: sqrt(p (1 - p) / n).
        run_error: standard error of the mean over runs; None with one.
        server_error: likewise over the servers' means; None with one server.
    """

    mean: float
    binomial_error: float
    run_error: float | None
    server_error: float | None


@dataclass(frozen=True, slots=True)
class Discordance:
    """Two runs: how many questions only one of them got right.

    Attributes:
        p: two-sided exact McNemar: how likely a split at least as uneven is between two equal runs.
    """

    only_first: int
    only_second: int
    p: float


def accuracy(right: Sequence[Sequence[bool]], servers: Sequence[str]) -> Accuracy:
    """Args:
    right: [runs][n].
    servers: the server of each run.
    """
    of_run = np.array([np.mean(run) for run in right])
    mean = float(of_run.mean())
    names = sorted(set(servers))
    of_server = np.array([of_run[[one == name for one in servers]].mean() for name in names])
    error = math.sqrt(mean * (1 - mean) / len(right[0]))
    return Accuracy(mean, error, _standard_error(of_run), _standard_error(of_server))


def wilson(share: float, count: int) -> tuple[float, float]:
    """95% interval of a share of ``count`` questions (Wilson 1927): not of no width at 0 and 1, as the usual
    one.
    """
    centre = share + SURE**2 / (2 * count)
    half = SURE * math.sqrt(share * (1 - share) / count + SURE**2 / (4 * count**2))
    scale = 1 + SURE**2 / count
    return max((centre - half) / scale, 0.0), min((centre + half) / scale, 1.0)


def mcnemar(first: Sequence[bool], second: Sequence[bool]) -> Discordance:
    """The exact test (McNemar 1947) on the discordant questions of two runs."""
    from scipy.stats import binomtest

    only_first = sum(a and not b for a, b in zip(first, second, strict=True))
    only_second = sum(b and not a for a, b in zip(first, second, strict=True))
    discordant = only_first + only_second
    p = binomtest(only_first, discordant).pvalue if discordant else 1.0
    return Discordance(only_first, only_second, float(p))


def paired_difference(
    base: Sequence[Sequence[bool]], change: Sequence[Sequence[bool]]
) -> tuple[float, float | None]:
    """change - base of the mean accuracy, and its standard error over questions (None for one question)."""
    delta = np.mean(change, axis=0) - np.mean(base, axis=0)
    return float(delta.mean()), _standard_error(delta)


def _standard_error(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float | None:
    return None if len(values) < 2 else float(values.std(ddof=1) / math.sqrt(len(values)))
