"""Intervals of paired results: exact for yes or no, and for amounts that are bounded. No libraries but numpy.

Every interval has one-sided error `alpha` at each end, so that a non-inferiority test at level alpha is the
question whether its end lies beyond the margin (TOST: Schuirmann 1987).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 10_000
AT_ONCE = 1_000
BEYOND = 3.0
"""Where an amount has no bound, one that was not seen lies so many times as far from the mean as the furthest
that was: docs/gate.md has what a wrong pass then costs, by distribution."""


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


def mean(
    units: Sequence[float] | NDArray[np.float64],
    alpha: float,
    least: float | None = None,
    most: float | None = None,
) -> Interval:
    """Of a mean of units (prompts, or runs of positions) that are independent of each other.

    Each end is a quantile of means with random weights (Bayesian bootstrap, Rubin 1981), one unit more among
    them at the bound `least` or `most`: where n units are alike, up to 1 - alpha^(1/n) of all others may be
    there. With a bound this holds for every distribution (Gaffke 2005; Learned-Miller and Thomas 2019); of
    yes or no it is Clopper-Pearson.
    """
    return ratio(units, np.ones(len(units)), alpha, least, most)


def ratio(
    sums: Sequence[float] | NDArray[np.float64],
    sizes: Sequence[float] | NDArray[np.float64],
    alpha: float,
    least: float | None = None,
    most: float | None = None,
) -> Interval:
    """The same of a mean over unequal units, each the sum of so many values."""
    x, n = np.asarray(sums, float), np.asarray(sizes, float)
    value = float(x.sum() / n.sum()) if n.sum() else math.nan
    if not n.all() or (too_few(len(x), alpha) and None in (least, most)):
        return Interval(value, -math.inf, math.inf)
    # How much each unit adds to what the mean would give it; one more has the mean size.
    off, size = x - value * n, float(n.mean())
    down = BEYOND * off.min() if least is None else (least - value) * size
    up = BEYOND * off.max() if most is None else (most - value) * size
    low = _quantile(np.append(off, down), np.append(n, size), alpha)
    high = -_quantile(-np.append(off, up), np.append(n, size), alpha)
    return Interval(value, value + min(0.0, low), value + max(0.0, high))


def _quantile(off: NDArray[np.float64], sizes: NDArray[np.float64], alpha: float) -> float:
    """Of weighted means over random weights."""
    rng = np.random.default_rng(0)
    means = []
    for _ in range(RESAMPLES // AT_ONCE):
        weights = rng.standard_exponential((AT_ONCE, len(off)))
        means.append((weights @ off) / (weights @ sizes))
    return float(np.quantile(np.concatenate(means), alpha))


def share(runs: NDArray[np.float64], length: int, alpha: float) -> Interval:
    """Of positions, from the share in each run of `length` neighbours, which are correlated.

    Clopper-Pearson of as many independent positions as have the same variance (Korn and Graubard 1998): all
    where runs differ no more than by chance, one a run where all of a run are alike or no run differs.
    """
    count = len(runs)
    if too_few(count, alpha):
        return Interval(float(runs.mean()) if count else math.nan, 0.0, 1.0)
    p, spread = float(runs.mean()), float(runs.var(ddof=1)) / count
    n = max(1, int(min(p * (1 - p) / spread, count * length))) if spread else count
    low, high = (proportion(whole(p * n), n, alpha) for whole in (math.floor, math.ceil))
    return Interval(p, low.low, high.high)


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
    if k < 0:
        return 0.0
    if p <= 0 or k >= n:
        return 1.0
    if p >= 1:
        return 0.0
    i = np.arange(1, k + 1)
    odds = np.log((n - i + 1) / i) + math.log(p) - math.log1p(-p)
    logs = n * math.log1p(-p) + np.append(0.0, np.cumsum(odds))
    return min(1.0, math.fsum(np.exp(logs)))


def _root(beyond: Callable[[float], bool]) -> float:
    """Where `beyond` becomes true between 0 and 1."""
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if beyond(middle) else (middle, high)
    return (low + high) / 2
