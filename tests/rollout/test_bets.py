"""Capital is evidence: its expectation is at most 1 where the hypothesis holds. By exact sums, no chance."""

from __future__ import annotations

import itertools
import math

import pytest

from kvant.rollout.bets import STAKES, Block, above, below, capital, fewer, more

SIZES = [(1, 1), (1, 10), (3, 2), (12, 1), (4, 4)]
RATES = [0.0, 0.004, 0.03, 0.2, 0.7, 1.0]


def expected(bet, sizes, candidate, baseline, guess, excess):
    """Mean growth of each stake over all outcomes of a block."""
    means = [0.0] * len(STAKES)
    for bad, worse in itertools.product(range(sizes[0] + 1), range(sizes[1] + 1)):
        chance = binomial(bad, sizes[0], candidate) * binomial(worse, sizes[1], baseline)
        for n, growth in enumerate(bet(Block(sizes[0], bad, sizes[1], worse), guess, excess)):
            means[n] += chance * math.exp(growth)
    return means


def binomial(k, n, p):
    return math.comb(n, k) * p**k * (1 - p) ** (n - k)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("guess", [0.0, 0.01, 0.1, 0.9])
@pytest.mark.parametrize("excess", [0.002, 0.1, 0.4])
def test_no_stake_wins_from_arms_that_are_alike_within_the_excess(sizes, guess, excess):
    for baseline in RATES:
        for candidate in [rate for rate in (*RATES, baseline + excess) if rate <= min(1, baseline + excess)]:
            assert max(expected(more, sizes, candidate, baseline, guess, excess)) <= 1 + 1e-12
        for candidate in [rate for rate in (*RATES, baseline + excess) if baseline + excess <= rate <= 1]:
            assert max(expected(fewer, sizes, candidate, baseline, guess, excess)) <= 1 + 1e-12


@pytest.mark.parametrize("sizes", SIZES)
def test_a_gambler_wins_where_the_hypothesis_is_wrong(sizes):
    assert max(expected(more, sizes, 0.4, 0.1, 0.1, 0.1)) > 1.05
    assert max(expected(fewer, sizes, 0.01, 0.01, 0.01, 0.1)) > 1.02


@pytest.mark.parametrize("limit", [0.01, 0.1, 0.45])
def test_a_level_at_its_limit_is_a_fair_bet_and_beyond_it_a_good_one(limit):
    for low, high in ((0.0, 1.0), (limit / 2, limit * 2), (limit, limit)):
        chance = (limit - low) / (high - low) if high > low else 0.5
        for bet in (above, below):
            for at_low, at_high in zip(bet(low, limit), bet(high, limit), strict=True):
                mean = (1 - chance) * math.exp(at_low) + chance * math.exp(at_high)
                assert mean == pytest.approx(1, abs=1e-12)
    assert min(above(min(1, 2 * limit), limit)) > 0 > max(above(limit / 2, limit))
    assert min(below(limit / 2, limit)) > 0 > max(below(min(1, 2 * limit), limit))


def test_no_outcome_ruins_a_gambler():
    for bet, x in itertools.product((above, below), (0.0, 1.0)):
        assert all(math.isfinite(growth) for growth in bet(x, 0.3))
    for bet, sizes, guess in itertools.product((more, fewer), SIZES, (0.0, 0.5, 1.0)):
        for bad, worse in ((0, sizes[1]), (sizes[0], 0)):
            block = Block(sizes[0], bad, sizes[1], worse)
            assert all(math.isfinite(growth) for growth in bet(block, guess, 0.1))


def test_capital_is_the_mean_over_stakes():
    assert capital([math.log(1), math.log(3)]) == pytest.approx(math.log(2))
    assert capital([5000.0, -5000.0]) == pytest.approx(5000 - math.log(2))
