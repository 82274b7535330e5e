"""A plan as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from kvant.plan import roi
from kvant.plan.plan import Plan, Row


def facts(plan: Plan) -> dict[str, Any]:
    """Everything, for --json."""
    asked = plan.request
    model = {k: v for k, v in asdict(asked.model).items() if k != "layers"}
    found: dict[str, Any] = {
        "model": model | {"layers": [asdict(layer) for layer in asked.model.layers]},
        "room": asdict(asked.room) | {"device": asked.room.device.model_dump()},
        "contexts": asdict(asked.contexts) | {"mean": asked.contexts.mean},
        "concurrency": asked.concurrency,
        "rows": [_row_facts(row) for row in plan.rows],
        "fits": not plan.reason,
        "reason": plan.reason,
        "changes": list(plan.changes),
        "assumptions": {name: one.model_dump() for name, one in asked.assumed.items()},
    }
    if plan.chosen and plan.limits:
        found |= {"chosen": plan.chosen.fit.precision.name, "limits": asdict(plan.limits)}
    if plan.service:
        cases = zip(("low", "base", "high"), roi.extremes(plan.service, asked.assumed), strict=True)
        found |= {
            "service": asdict(plan.service),
            "return": {name: _return_facts(one) for name, one in cases},
            "swings": [
                {"name": one.name, "low": one.low, "high": one.high}
                for one in roi.swings(plan.service, asked.assumed)
            ],
        }
    return found


def _row_facts(row: Row) -> dict[str, Any]:
    one = {k: v for k, v in vars(row.fit).items() if k != "precision"}
    named = {"precision": row.fit.precision.name, "source": row.fit.precision.source}
    return named | one | {"speed": asdict(row.speed) if row.speed else None}


def _return_facts(one: roi.Return) -> dict[str, Any]:
    never = one.payback == float("inf")
    return asdict(one) | {"net": one.net, "payback_months": None if never else one.payback}
