"""What is kept for the plots."""

from __future__ import annotations

import math

from kvant.gateway.console.recent import SAMPLE, SECONDS, SLOTS, Recent
from kvant.rollout.evidence import Comparison, Serving


def test_slots_hold_mean_median_and_90th_percentile() -> None:
    now = 1000.0
    recent = Recent(lambda: now)
    for value in range(1, 11):
        recent.observe(Comparison(0.0, value / 10, None, 5))
    now = 1004.0
    assert recent.series() == {"divergence": [[4.0, 0.55, 0.6, 1.0]]}


def test_shadow_has_no_times_and_what_is_no_number_no_place() -> None:
    recent = Recent(lambda: 0.0)
    recent.observe(Serving("candidate", 0.0, first_token=0.1, shadow=True))
    recent.observe(Serving("candidate", 0.0, first_token=None))
    recent.observe(Comparison(0.0, math.nan, 0.75, 5))
    assert recent.series() == {"disagreement": [[0.0, 0.25, 0.25, 0.25]]}


def test_it_is_bounded_in_time_and_in_values() -> None:
    clock = [0.0]
    recent = Recent(lambda: clock[0])
    for _ in range(2 * SLOTS):
        clock[0] += SECONDS
        for value in range(3 * SAMPLE):
            recent.observe(Serving("baseline", 0.0, per_token=float(value)))
    (points,) = recent.series().values()
    assert len(points) == SLOTS
    assert points[0][0] == (SLOTS - 1) * SECONDS
    assert all(40 < median < 150 for _, _, median, _ in points)
    clock[0] += 2 * SLOTS * SECONDS
    assert recent.series() == {}
