"""Intervals of paired results: exact for yes or no, bootstrap for amounts. No libraries but numpy.

Every interval has one-sided error `alpha` at each end, so that a non-inferiority test at level alpha is the
question whether its end lies beyond the margin (TOST: Schuirmann 1987).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 4_000


@dataclass(frozen=True)
class Interval:
    """An estimate and the ends of its interval."""

    value: float
    low: float
    high: float


def proportion(hits: int, n: int, alpha: float) -> Interval:
    """Clopper-Pearson (1934): exact ends of a proportion."""
    if not n:
        return Interval(math.nan, 0.0, 1.0)
    low = 0.0 if hits == 0 else _root(lambda p: 1 - cdf(hits - 1, n, p) > alpha)
    high = 1.0 if hits == n else _root(lambda p: cdf(hits, n, p) < alpha)
    return Interval(hits / n, low, high)


def gain(pairs: Sequence[tuple[bool, bool]], alpha: float) -> Interval:
    """Share that (baseline, candidate) won minus share it lost: exact ends of both, alpha split between them.

    Holds whatever the two shares are (Bonferroni), so it is never too narrow.
    """
    n = len(pairs)
    won, lost = discordant(pairs)
    wins, losses = (proportion(count, n, alpha / 2) for count in (won, lost))
    if not n:
        return Interval(math.nan, -1.0, 1.0)
    return Interval((won - lost) / n, wins.low - losses.high, wins.high - losses.low)


def discordant(pairs: Sequence[tuple[bool, bool]]) -> tuple[int, int]:
    """How many of (baseline, candidate) only the candidate, and only the baseline, got right."""
    return sum(c and not b for b, c in pairs), sum(b and not c for b, c in pairs)


def mcnemar(pairs: Sequence[tuple[bool, bool]]) -> float:
    """Two-sided exact p-value of 'both arms are right equally often' (McNemar 1947, binomial)."""
    won, lost = discordant(pairs)
    return min(1.0, 2 * cdf(min(won, lost), won + lost, 0.5)) if won + lost else 1.0


def mean(units: Sequence[float] | NDArray[np.float64], alpha: float, seed: int = 0) -> Interval:
    """Percentile bootstrap of a mean; units (prompts, or runs of positions) are independent of each other."""
    x = np.asarray(units, float)
    if too_few(len(x), alpha):
        return Interval(float(x.mean()) if len(x) else math.nan, -math.inf, math.inf)
    rng = np.random.default_rng(seed)
    means = x[rng.integers(0, len(x), (RESAMPLES, len(x)))].mean(axis=1)
    low, high = np.quantile(means, [alpha, 1 - alpha])
    return Interval(float(x.mean()), float(low), float(high))


def ratio(sums: Sequence[float], sizes: Sequence[int], alpha: float, seed: int = 0) -> Interval:
    """Percentile bootstrap of a mean over unequal units, each the sum of so many values."""
    x, n = np.asarray(sums, float), np.asarray(sizes, float)
    if too_few(len(x), alpha) or not n.all():
        return Interval(math.nan, -math.inf, math.inf)
    drawn = np.random.default_rng(seed).integers(0, len(x), (RESAMPLES, len(x)))
    low, high = np.quantile(x[drawn].sum(axis=1) / n[drawn].sum(axis=1), [alpha, 1 - alpha])
    return Interval(float(x.sum() / n.sum()), float(low), float(high))


def too_few(units: int, alpha: float) -> bool:
    """Whether all of so many can lie on one side of the middle by chance alpha: then no interval holds."""
    return 0.5**units > alpha


def runs(x: NDArray[np.float64], length: int) -> NDArray[np.float64]:
    """Means of runs of `length` neighbours, which are correlated; a shorter rest is left out."""
    whole = len(x) // length * length
    found: NDArray[np.float64] = x[:whole].reshape(-1, length).mean(axis=1)
    return found


def cdf(k: int, n: int, p: float) -> float:
    """P(X <= k) of a binomial."""
    if p <= 0 or k >= n:
        return 1.0
    if p >= 1:
        return 0.0
    logs = (
        math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1)
        + i * math.log(p) + (n - i) * math.log1p(-p)
        for i in range(k + 1)
    )  # fmt: skip
    return min(1.0, math.fsum(math.exp(x) for x in logs))


def _root(beyond: Callable[[float], bool]) -> float:
    """Where `beyond` becomes true between 0 and 1."""
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if beyond(middle) else (middle, high)
    return (low + high) / 2
