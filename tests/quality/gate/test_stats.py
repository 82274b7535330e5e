"""Intervals: known values, and that they cover what they promise to cover."""

from __future__ import annotations

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


def test_the_bootstrap_covers_the_mean_of_a_skewed_amount() -> None:
    rng, rounds = np.random.default_rng(0), 300
    missed = sum(stats.mean(rng.exponential(size=100), 0.05).high < 1 for _ in range(rounds))
    assert 0.02 * rounds < missed < 0.1 * rounds  # close to .05: neither blind nor boundless


@pytest.mark.parametrize("units", [2, 4, 5])
def test_few_units_err_no_more_often_than_promised(units: int) -> None:
    """Two units lie below their mean in a quarter of all cases, whatever is drawn from them."""
    rng, rounds = np.random.default_rng(0), 400
    missed = sum(stats.mean(rng.standard_normal(units), 0.02).high < 0 for _ in range(rounds))
    assert missed <= 0.02 * rounds


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
