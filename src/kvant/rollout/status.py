"""A rollout as plain values: for the API, the console and metrics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from kvant.rollout.decide import Finding, decide, findings, good_threshold, worse_threshold
from kvant.rollout.plan import Plan
from kvant.rollout.state import State
from kvant.rollout.tally import Sums, plus

COUNTS = ("compared", "served.candidate", "served.baseline")
GREATEST = 690.0


def status(
    plan: Plan, state: State, stages: Sequence[Sums], candidate: str, weight: float, trouble: str
) -> dict[str, Any]:
    """`weight` is what this gateway sends to `candidate` now: 0 where the state is about another one.
    `stages` are the sums of every phase since the start."""
    total = plus(*stages)
    step = plan.at(state.weight)
    decision = decide(plan, state, stages)
    return {
        "candidate": candidate,
        "phase": state.phase if state.candidate == candidate else "idle",
        "weight": weight,
        "paused": state.paused,
        "trouble": trouble,
        "reason": state.reason,
        "since": state.since,
        "generation": state.generation,
        "stage": state.stage,
        "dwelt": round(state.dwelt, 1),
        "step": step.model_dump(mode="json") if state.phase in ("shadow", "canary") else None,
        "next_weight": plan.after(state.weight) if state.phase in ("shadow", "canary") else None,
        "verdict": decision.verdict if state.active else "hold",
        "why": list(decision.why) if state.active else [],
        "counts": {
            name: {"phase": int(stages[-1].get(name, 0)), "total": int(total.get(name, 0))} for name in COUNTS
        },
        "quantities": {one.quantity: _quantity(one, plan) for one in findings(stages)},
        "history": [asdict(entry) for entry in state.history],
    }


def _quantity(found: Finding, plan: Plan) -> dict[str, Any]:
    bound = plan.limits.of(found.quantity)
    return {
        "candidate": found.candidate,
        "n": found.n,
        "baseline": found.baseline,
        "baseline_n": found.baseline_n,
        "worse": {
            "than": bound.rollback,
            "e_value": _capital(found.worse),
            "threshold": _capital(worse_threshold(plan, found.quantity)),
            "shown": found.worse >= worse_threshold(plan, found.quantity),
        },
        "good": {
            "below": bound.promote,
            "e_value": _capital(found.good),
            "threshold": _capital(good_threshold(plan)),
            "shown": found.good >= good_threshold(plan),
        },
    }


def _capital(log: float) -> float:
    return float(f"{math.exp(min(log, GREATEST)):.4g}")
