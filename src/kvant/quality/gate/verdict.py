"""From an interval and a margin to a verdict. Not knowing is not passing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from kvant.quality.gate.stats import Interval


class Verdict(str, Enum):
    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"


EXIT = {Verdict.PASS: 0, Verdict.FAIL: 1, Verdict.INCONCLUSIVE: 2}
ERROR = 3
"""Exit status where no verdict was reached: wrong input, or a baseline that does not answer."""


@dataclass(frozen=True)
class Check:
    """One margin: `value` in [low, high] against `margin`, which is the most (or, of a gain, the least)."""

    name: str
    value: float
    low: float
    high: float
    margin: float
    verdict: Verdict
    method: str


def at_most(name: str, found: Interval, margin: float, method: str) -> Check:
    """Passes where even the upper end is within the margin, fails where even the lower end is beyond."""
    return Check(name, found.value, found.low, found.high, margin, _of(found.high, found.low, margin), method)


def loses_at_most(name: str, found: Interval, margin: float, method: str, had: float) -> Check:
    """The same for a gain, which may be `margin` below zero.

    Where the baseline has (`had`) no more than that, losing all would pass as well: it is inconclusive.
    """
    verdict = _of(-found.low, -found.high, margin)
    if verdict is Verdict.PASS and had <= margin:
        verdict = Verdict.INCONCLUSIVE
    return Check(name, found.value, found.low, found.high, -margin, verdict, method)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Fail before inconclusive before pass; nothing measured is inconclusive."""
    found = set(verdicts) or {Verdict.INCONCLUSIVE}
    order = (Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.PASS)
    return next(one for one in order if one in found)


def _of(most: float, least: float, margin: float) -> Verdict:
    if most <= margin:
        return Verdict.PASS
    return Verdict.FAIL if least > margin else Verdict.INCONCLUSIVE
