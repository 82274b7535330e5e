"""Not knowing is not passing."""

from __future__ import annotations

import pytest

from kvant.quality.gate import stats
from kvant.quality.gate.stats import Interval
from kvant.quality.gate.verdict import EXIT, Verdict, at_most, loses_at_most, worst

PASS, FAIL, UNSURE = Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    ("low", "high", "verdict"), [(0.0, 0.9, PASS), (0.5, 1.5, UNSURE), (1.1, 2.0, FAIL), (-9, 9, UNSURE)]
)
def test_an_interval_against_a_margin(low: float, high: float, verdict: Verdict) -> None:
    assert at_most("x", Interval((low + high) / 2, low, high), 1.0, "").verdict is verdict
    gain = loses_at_most("x", Interval(-(low + high) / 2, -high, -low), 1.0, "", 1.5)
    assert (gain.verdict, gain.margin) == (verdict, -1.0)


def test_all_right_passes_only_with_enough_tasks() -> None:
    def all_right(n: int) -> Verdict:
        return loses_at_most("x", stats.gain([(True, True)] * n, 0.05), 0.1, "", 1.0).verdict

    assert (all_right(12), all_right(60)) == (UNSURE, PASS)


def test_the_worst_counts_and_nothing_is_inconclusive() -> None:
    assert worst([PASS, UNSURE, PASS]) is UNSURE
    assert worst([UNSURE, FAIL]) is FAIL
    assert worst([]) is UNSURE
    assert sorted(EXIT.values()) == [0, 1, 2]


@pytest.mark.parametrize(("had", "verdict"), [(0.05, "inconclusive"), (0.1, "inconclusive"), (0.11, "pass")])
def test_nothing_to_lose_is_no_pass(had: float, verdict: str) -> None:
    """As many lost as there are would be within the margin."""
    assert loses_at_most("x", Interval(0.0, -0.05, 0.05), 0.1, "", had).verdict.value == verdict
