"""Sums: counted once, added in any order, of the right arm."""

from __future__ import annotations

import math
import random

import pytest

from kvant.rollout.evidence import BASELINE, CANDIDATE, Comparison, Serving
from kvant.rollout.plan import Limits
from kvant.rollout.tally import Tally, plus


def comparison(divergence: float | None = 0.004, agreement: float | None = 0.97) -> Comparison:
    return Comparison(0.0, divergence, agreement, 100)


def test_comparisons_add_up_however_gateways_share_them():
    draw = random.Random(3)
    seen = [comparison(draw.expovariate(200), draw.random()) for _ in range(60)]
    alone, left, right = (Tally(Limits()) for _ in range(3))
    for n, one in enumerate(seen):
        alone.comparison(one)
        (left, right)[n % 3 == 0].comparison(one)
    together = plus(right.take(), left.take())
    assert together == pytest.approx(alone.take())
    assert together["compared"] == 60


def test_taking_leaves_nothing_and_keeps_blocks_that_are_not_complete():
    tally = Tally(Limits())
    for _ in range(5):
        tally.serving(Serving(BASELINE, 0.0))
    assert tally.take()["failures.baseline.n"] == 5
    assert tally.take() == {}
    tally.serving(Serving(CANDIDATE, 0.0, failed=True))
    sums = tally.take()
    assert sums["failures.candidate.sum"] == 1
    assert max(value for name, value in sums.items() if name.startswith("failures.worse")) > 1


def test_shadow_says_nothing_of_time_and_serves_nobody_but_its_failures_and_texts_count():
    tally = Tally(Limits())
    tally.serving(Serving(BASELINE, 0.0, first_token=0.1, per_token=0.01))
    tally.serving(Serving(CANDIDATE, 0.0, first_token=9.0, per_token=9.0, degenerate=True, shadow=True))
    sums = tally.take()
    assert sums["degeneration.candidate.sum"] == 1
    assert sums["failures.candidate.n"] == 1
    assert "served.candidate" not in sums
    assert "per_token.candidate.n" not in sums


def test_an_arm_that_is_neither_takes_no_part():
    tally = Tally(Limits())
    tally.serving(Serving("long-context", 0.0, failed=True, per_token=0.1))
    assert tally.take() == {}


def test_what_cannot_be_had_is_not_counted_and_what_is_no_number_counts_as_far_away():
    tally = Tally(Limits())
    tally.comparison(comparison(None, None))
    assert tally.take() == {"compared": 1}
    for strange in (math.nan, math.inf):
        tally.comparison(comparison(strange, math.nan))
    sums = tally.take()
    assert sums["divergence.sum"] == pytest.approx(0.2)  # ten limits each
    assert sums["disagreement.sum"] == pytest.approx(1.2)
    assert all(math.isfinite(value) for value in sums.values())


def test_slow_is_what_a_tenth_of_the_baseline_is_even_as_the_load_of_the_day_moves():
    draw, tally = random.Random(4), Tally(Limits())
    for n in range(6_000):
        load = 1 + 0.5 * math.sin(n / 500)
        for arm in (BASELINE, CANDIDATE):
            tally.serving(Serving(arm, 0.0, per_token=load * draw.lognormvariate(0, 0.35)))
    sums = tally.take()
    for arm in (BASELINE, CANDIDATE):
        assert sums[f"per_token.{arm}.sum"] / sums[f"per_token.{arm}.n"] == pytest.approx(0.1, abs=0.02)
