"""Requests and comparisons -> sums that can be added up over gateways, stores and restarts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from operator import add
from typing import Any

from kvant.rollout import bets
from kvant.rollout.evidence import BASELINE, CANDIDATE, Comparison, Serving
from kvant.rollout.plan import LEVELS, RATES, Limits, Quantity

Sums = Mapping[str, float]
"""By name: `compared`, `served.candidate`, `served.baseline`; of each quantity `.n`, `.sum`, of rates the
baseline's as well; and the log-capital of each stake against good (`.worse.0`) and against bad
(`.good.0`)."""

CLIP = 10
"""A comparison counts for so many limits at most, so that bets on its mean are possible."""
SLOWEST = 0.1
"""Share of the baseline's requests that count as slow."""
STEP = 0.05


def sum_of(value: Any) -> float:
    """A sum as a store gives it; `ValueError` or `TypeError` where it is none."""
    number = float(value)
    if not math.isfinite(number):
        raise ValueError("a sum of evidence is no number")
    return number


def plus(*parts: Sums) -> dict[str, float]:
    total: dict[str, float] = {}
    for part in parts:
        for name, value in part.items():
            total[name] = total.get(name, 0.0) + value
    return total


class Tally:
    """What one gateway has seen since it was last taken. Not thread-safe."""

    def __init__(self, limits: Limits) -> None:
        self._counts = dict.fromkeys(("compared", "served.candidate", "served.baseline"), 0)
        self._levels = {name: _Level(limits, name) for name in LEVELS}
        self._rates = {name: _Rate(limits, name) for name in RATES}
        self._slow: dict[Quantity, _Slow] = {"first_token": _Slow(), "per_token": _Slow()}

    def comparison(self, found: Comparison) -> None:
        """Divergence and agreement. Degeneration is counted where answers are, once each: in `serving`."""
        self._counts["compared"] += 1
        if found.divergence is not None:
            self._levels["divergence"].add(found.divergence)
        if found.agreement is not None:
            self._levels["disagreement"].add(1 - found.agreement)

    def serving(self, served: Serving) -> None:
        """Failures and degeneration of every answer, shadow or not; times of live ones only, because shadow
        waits behind all else. Arms that are neither of the two take no part."""
        if served.arm not in (BASELINE, CANDIDATE):
            return
        candidate = served.arm == CANDIDATE
        self._rates["failures"].add(candidate, served.failed)
        if not served.failed:
            self._rates["degeneration"].add(candidate, served.degenerate)
        if served.shadow:
            return
        self._counts[f"served.{served.arm}"] += 1
        for name, slow in self._slow.items():
            seconds: float | None = getattr(served, name)
            if seconds is not None and 0 < seconds < math.inf:
                self._rates[name].add(candidate, slow.is_slow(seconds, learn=not candidate))

    def take(self) -> dict[str, float]:
        """The sums so far, which start at zero again; blocks that are not complete stay."""
        sums = {name: float(count) for name, count in self._counts.items() if count}
        self._counts = dict.fromkeys(self._counts, 0)
        for part in (*self._levels.values(), *self._rates.values()):
            sums |= part.take()
        return sums


class _Bets:
    """Log-capital of every stake in both directions, and plain figures for people."""

    whose: tuple[str, ...] = ("",)

    def __init__(self, limits: Limits, name: Quantity) -> None:
        self.name, self.bound = name, limits.of(name)
        self._clear()

    def _clear(self) -> None:
        self.worse, self.good = [0.0] * len(bets.STAKES), [0.0] * len(bets.STAKES)
        self.n, self.sum = dict.fromkeys(self.whose, 0), dict.fromkeys(self.whose, 0.0)

    def _bet(self, worse: Sequence[float], good: Sequence[float]) -> None:
        self.worse, self.good = list(map(add, self.worse, worse)), list(map(add, self.good, good))

    def _count(self, whose: str, value: float) -> None:
        self.n[whose] += 1
        self.sum[whose] += value

    def take(self) -> dict[str, float]:
        sums: dict[str, float] = {}
        for whose, n in self.n.items():
            if n:
                sums |= {f"{self.name}{whose}.n": float(n), f"{self.name}{whose}.sum": self.sum[whose]}
        for side, growths in (("worse", self.worse), ("good", self.good)):
            sums |= {f"{self.name}.{side}.{n}": one for n, one in enumerate(growths) if one}
        self._clear()
        return sums


class _Level(_Bets):
    """A figure of its own for each comparison, held against a limit."""

    def __init__(self, limits: Limits, name: Quantity) -> None:
        super().__init__(limits, name)
        self.most = CLIP * self.bound.rollback

    def add(self, value: float) -> None:
        # An arm whose figures are no numbers is as far away as can be.
        x = 1.0 if math.isnan(value) else min(max(value, 0.0), self.most) / self.most
        self._count("", x * self.most)
        self._bet(
            bets.above(x, self.bound.rollback / self.most), bets.below(x, self.bound.promote / self.most)
        )


class _Rate(_Bets):
    """Bad or not, of both arms, in blocks that follow each other in time."""

    whose = (".candidate", ".baseline")

    def __init__(self, limits: Limits, name: Quantity) -> None:
        super().__init__(limits, name)
        self.block = bets.Block()
        self.baselines, self.bad, self.guess = 0, 0, 0.0

    def add(self, candidate: bool, bad: bool) -> None:
        if not self.block.candidates and not self.block.baselines:
            self.guess = (self.bad + 0.5) / (self.baselines + 50)
        self.block.add(candidate, bad)
        self._count(".candidate" if candidate else ".baseline", bad)
        if not candidate:
            self.baselines, self.bad = self.baselines + 1, self.bad + bad
        if self.block.complete:
            self._bet(
                bets.more(self.block, self.guess, self.bound.rollback),
                bets.fewer(self.block, self.guess, self.bound.promote),
            )
            self.block = bets.Block()


class _Slow:
    """Slower than most of the baseline's requests of late? The mark is set before a request is held against
    it, and both arms are held against the same, so it need not be exact: it follows the 90th percentile by
    steps (Robbins and Monro 1951) and the day's load with it."""

    def __init__(self) -> None:
        self.mark: float | None = None

    def is_slow(self, seconds: float, learn: bool) -> bool:
        logged = math.log(seconds)
        slow = self.mark is not None and logged > self.mark
        if learn:
            self.mark = logged if self.mark is None else self.mark + STEP * (slow - SLOWEST)
        return slow
