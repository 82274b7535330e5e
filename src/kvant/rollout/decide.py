"""Promote, hold or roll back: what the evidence of all phases so far allows.

Two errors are bounded by the plan's `alpha`, however often one looks:

- rolling back a candidate within all limits. Capital against "within its limit" is spread over starting
  points, half of it bet from the first phase on, a sixth from the second, ..., so that what went well for
  long does not hide what goes wrong now; it is one supermartingale from 1 on. The quantities share alpha
  (union bound);
- promoting a candidate that is not good in a quantity that the step asks for. Every one of them must be shown
  at level alpha, so none may fail: no correction is needed (intersection-union test, Berger 1982).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from kvant.rollout import bets
from kvant.rollout.plan import LEVELS, QUANTITIES, Plan, Quantity
from kvant.rollout.state import State
from kvant.rollout.tally import Sums, plus

Verdict = Literal["promote", "hold", "rollback"]

SHARES: dict[Quantity, float] = {
    "divergence": 0.1,
    "disagreement": 0.1,
    "degeneration": 0.5,
    "failures": 0.1,
    "first_token": 0.1,
    "per_token": 0.1,
}
"""Of alpha. Degeneration is rare even in a bad arm, so each case must count; the others are quick to show."""


@dataclass(frozen=True)
class Finding:
    """What is known of one quantity. `worse` and `good` are natural logs of capital."""

    quantity: Quantity
    candidate: float | None
    n: int
    baseline: float | None
    """Of rates only."""
    baseline_n: int
    worse: float
    good: float

    def figures(self) -> str:
        if self.candidate is None:
            return "not measured yet"
        mine = f"{self.candidate:.4g} over {self.n}"
        return (
            mine if self.baseline is None else f"{mine}, baseline {self.baseline:.4g} over {self.baseline_n}"
        )


@dataclass(frozen=True)
class Decision:
    """What follows, and why: what is missing to go on, or what is beyond its limit."""

    verdict: Verdict
    why: tuple[str, ...]


def worse_threshold(plan: Plan, quantity: Quantity) -> float:
    return math.log(1 / (SHARES[quantity] * plan.alpha))


def good_threshold(plan: Plan) -> float:
    return math.log(1 / plan.alpha)


def findings(stages: Sequence[Sums]) -> tuple[Finding, ...]:
    """From the sums of every phase of a rollout, the first one first."""
    total = plus(*stages)
    return tuple(_finding(quantity, stages, total) for quantity in QUANTITIES)


def _finding(quantity: Quantity, stages: Sequence[Sums], total: Sums) -> Finding:
    mine = quantity if quantity in LEVELS else f"{quantity}.candidate"
    n, baseline_n = int(total.get(f"{mine}.n", 0)), int(total.get(f"{quantity}.baseline.n", 0))
    return Finding(
        quantity,
        total[f"{mine}.sum"] / n if n else None,
        n,
        total[f"{quantity}.baseline.sum"] / baseline_n if baseline_n else None,
        baseline_n,
        _spread(_all_logs(stages, quantity)),
        bets.capital(_logs(total, quantity, "good")),
    )


def decide(plan: Plan, state: State, stages: Sequence[Sums]) -> Decision:
    """`stages` are the sums of every phase since the start, the present one last."""
    found = {one.quantity: one for one in findings(stages)}
    beyond = [one for one in found.values() if one.worse >= worse_threshold(plan, one.quantity)]
    if beyond:
        return Decision("rollback", tuple(_beyond(one, plan, stages) for one in beyond))
    if state.phase == "full":
        return Decision("hold", ())
    missing = _missing(plan, state, stages[-1] if stages else {})
    proof = [found[name] for name in plan.at(state.weight).proof]
    missing += [
        f"{one.quantity}: not shown yet to be good, {one.figures()}; e-value {number(one.good)} "
        f"of {number(good_threshold(plan))}"
        for one in proof
        if one.good < good_threshold(plan)
    ]
    if missing:
        return Decision("hold", tuple(missing))
    return Decision("promote", tuple(f"{one.quantity}: good, {one.figures()}" for one in proof))


def number(log: float) -> str:
    """A capital, for people."""
    return f"{math.exp(log):.3g}" if log < 14 else f"1e{log / math.log(10):.0f}"


def _missing(plan: Plan, state: State, now: Sums) -> list[str]:
    step = plan.at(state.weight)
    missing = ["paused"] if state.paused else []
    for what, there, needed in (
        ("seconds in this phase", state.dwelt, step.dwell),
        ("requests compared", now.get("compared", 0), step.compared),
        ("requests served by the candidate", now.get("served.candidate", 0), step.served),
    ):
        if there < needed:
            missing.append(f"{there:.0f} of {needed:.0f} {what}")
    return missing


def _beyond(found: Finding, plan: Plan, stages: Sequence[Sums]) -> str:
    """Its figures since the phase from which on the evidence is strongest."""
    first = max(range(len(stages)), key=lambda n: _from(n, _all_logs(stages, found.quantity)))
    since = _finding(found.quantity, stages[first:], plus(*stages[first:]))
    than = "" if found.quantity in LEVELS else "the baseline and "
    return (
        f"{found.quantity}: {since.figures()}; shown to be more than {than}"
        f"{plan.limits.of(found.quantity).rollback:g}, e-value {number(found.worse)} "
        f"of {number(worse_threshold(plan, found.quantity))}"
    )


def _all_logs(stages: Sequence[Sums], quantity: Quantity) -> list[list[float]]:
    return [_logs(sums, quantity, "worse") for sums in stages]


def _logs(sums: Sums, quantity: Quantity, side: str) -> list[float]:
    return [sums.get(f"{quantity}.{side}.{n}", 0.0) for n in range(len(bets.STAKES))]


def _spread(stages: Sequence[Sequence[float]]) -> float:
    """Log-capital of 1/2 bet from the first phase on, 1/6 from the second, 1/12, ...; the rest is kept."""
    parts = [_from(first, stages) - math.log((first + 1) * (first + 2)) for first in range(len(stages))]
    return bets.log_sum([*parts, -math.log(len(stages) + 1)])


def _from(first: int, stages: Sequence[Sequence[float]]) -> float:
    """Log-capital of what is bet from this phase on."""
    return bets.capital([math.fsum(logs) for logs in zip(*stages[first:], strict=True)])
