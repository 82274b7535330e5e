"""Intervals: known values, and that they cover what they promise to cover."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from kvant.quality.gate import stats


def test_clopper_pearson_has_its_published_ends() -> None:
    # Two-sided 95 % of 0 and 3 of 10, as printed in every table.
    none, three = stats.proportion(0, 10, 0.025), stats.proportion(3, 10, 0.025)
    assert (none.low, round(none.high, 4)) == (0.0, 0.3085)
    assert (round(three.low, 4), round(three.high, 4)) == (0.0667, 0.6525)
    assert stats.proportion(10, 10, 0.025).low == pytest.approx(1 - none.high)


@pytest.mark.parametrize(("won", "lost", "p"), [(0, 5, 0.0625), (1, 9, 0.02148), (4, 4, 1.0), (0, 0, 1.0)])
def test_mcnemar_is_the_binomial_test(won: int, lost: int, p: float) -> None:
    pairs = [(False, True)] * won + [(True, False)] * lost + [(True, True)] * 7
    assert stats.mcnemar(pairs) == pytest.approx(p, abs=1e-4)


@pytest.mark.parametrize(("loss", "win"), [(0.05, 0.0), (0.1, 0.05), (0.3, 0.3)])
def test_the_ends_of_a_gain_err_less_often_than_promised(loss: float, win: float) -> None:
    rng, n, alpha, rounds = np.random.default_rng(0), 60, 0.05, 400
    missed = 0
    for lost, won, _ in rng.multinomial(n, [loss, win, 1 - loss - win], rounds):
        pairs = [(True, False)] * lost + [(False, True)] * won + [(True, True)] * (n - lost - won)
        missed += stats.gain(pairs, alpha).low > win - loss
    assert missed <= alpha * rounds


Draw = Callable[[np.random.Generator, int], np.ndarray]
ALPHA, LOOKS, TIMES = 0.05, 4, 200
NOISE = 3 * (ALPHA * (1 - ALPHA) / TIMES) ** 0.5
KL = partial(stats.mean, least=0.0)
SCORE = partial(stats.mean, least=-1.0, most=1.0)
TOP1 = partial(stats.share, length=32)


def _lognormal(sigma: float) -> Draw:
    return lambda rng, n: np.exp(sigma * rng.standard_normal(n) - sigma**2 / 2)


def _positions(p: float, alike: float) -> Draw:
    """Shares of runs of 32 positions whose correlation is `alike` (beta-binomial)."""
    return lambda rng, n: rng.binomial(32, rng.beta(p * (1 / alike - 1), (1 - p) * (1 / alike - 1), n)) / 32


AT_THE_MARGIN: dict[str, tuple[Draw, Callable, float, int]] = {
    "normal, 8": (lambda rng, n: 1 + 0.5 * rng.standard_normal(n), stats.mean, 1.0, 8),
    "exponential, 8": (lambda rng, n: rng.exponential(size=n), KL, 1.0, 8),
    "lognormal 1, 8": (_lognormal(1.0), KL, 1.0, 8),
    "lognormal 1, 60": (_lognormal(1.0), KL, 1.0, 60),
    "lognormal 1.5, 24": (_lognormal(1.5), KL, 1.0, 24),
    "a few lost wholly, 5": (lambda rng, n: (rng.random(n) < 0.05) * 1.0, SCORE, 0.05, 5),
    "a few lost wholly, 32": (lambda rng, n: (rng.random(n) < 0.05) * 1.0, SCORE, 0.05, 32),
    "a tenth lost by half, 32": (lambda rng, n: (rng.random(n) < 0.1) * 0.5, SCORE, 0.05, 32),
    "positions, 8": (_positions(0.06, 0.001), TOP1, 0.06, 8),
    "positions, correlated, 16": (_positions(0.06, 0.05), TOP1, 0.06, 16),
    "positions, runs all alike, 16": (_positions(0.06, 0.999), TOP1, 0.06, 16),
}


@pytest.mark.parametrize("name", AT_THE_MARGIN)
def test_a_mean_at_the_margin_is_decided_no_more_often_than_promised(
    name: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over four looks, as course.py takes them; the percentile bootstrap errs up to .4 here."""
    monkeypatch.setattr(stats, "RESAMPLES", 1_000)
    draw, interval, margin, size = AT_THE_MARGIN[name]
    passed = failed = 0
    for _ in range(TIMES):
        units = draw(rng, LOOKS * size)
        ends = [interval(units[: n * size], alpha=ALPHA / LOOKS) for n in range(1, LOOKS + 1)]
        passed += any(one.high <= margin for one in ends)
        failed += any(one.low > margin for one in ends)
    assert max(passed, failed) / TIMES <= ALPHA + NOISE


@pytest.mark.parametrize(("size", "sigma"), [(44, 0.5), (16, 0.5), (44, 1.0)])
def test_a_third_of_the_margin_passes_at_the_first_look(
    size: int, sigma: float, rng: np.random.Generator
) -> None:
    """Of units as skewed as those of `fidelity` (sigma .5) and more."""
    found = [KL(0.003 * _lognormal(sigma)(rng, size), alpha=ALPHA / LOOKS).high < 0.01 for _ in range(50)]
    assert np.mean(found) >= 0.9


@pytest.mark.parametrize(("hits", "n"), [(0, 30), (1, 30), (7, 30)])
def test_of_yes_or_no_a_bounded_mean_is_clopper_pearson(hits: int, n: int) -> None:
    units = [1.0] * hits + [0.0] * (n - hits)
    exact, found = stats.proportion(hits, n, 0.05), stats.mean(units, 0.05, 0.0, 1.0)
    assert (found.low, found.high) == pytest.approx((exact.low, exact.high), abs=0.005)
    assert stats.share(np.array(units), 32, 0.05).high == pytest.approx(exact.high, rel=0.1)


def test_where_none_differed_some_still_may() -> None:
    """Of n alike up to 1 - alpha^(1/n) of those not seen may be at the bound: the rule of three."""
    for n in (8, 32, 128):
        may = 1 - 0.0125 ** (1 / n)
        assert SCORE([0.0] * n, alpha=0.0125).low == pytest.approx(-may, rel=0.05)
        assert TOP1(np.zeros(n), alpha=0.0125).high == pytest.approx(may)


def test_a_ratio_weighs_its_units_by_their_size() -> None:
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 50, 80)
    sums = [rng.exponential(size=n).sum() for n in sizes]
    found = stats.ratio(sums, list(sizes), 0.05)
    assert found.value == pytest.approx(sum(sums) / sizes.sum())
    assert 0.9 < found.low < found.value < found.high < 1.1


def test_too_few_units_say_nothing() -> None:
    assert stats.mean([0.1], 0.05).high == np.inf
    assert stats.mean([0.1] * 6, 0.05 / 4).high == np.inf
    assert stats.mean([0.1] * 7, 0.05 / 4).high < 0.2
    assert stats.ratio([0.1] * 6, [1] * 6, 0.05 / 4).low == -np.inf
    assert stats.gain([], 0.05).low == -1
    assert len(stats.runs(np.arange(70.0), 32)) == 2
