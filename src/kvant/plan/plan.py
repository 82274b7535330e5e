"""One plan: every precision in a room, the limits of the chosen one, and its return."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvant.plan import advice, roi
from kvant.plan.fit import Fit, fit
from kvant.plan.limits import Limits, limits
from kvant.plan.precision import BASELINE, Ours, Precision
from kvant.plan.request import Request
from kvant.plan.speed import Speed, speed

INSTANCES = 10
"""Of the baseline, filled: what the return is computed for where no demand is given."""


@dataclass(frozen=True)
class Row:
    """A precision: what fits, and how fast it is with as many requests as are recommended."""

    fit: Fit
    speed: Speed | None


@dataclass(frozen=True)
class Plan:
    """The answer. `reason` and `changes` are given where nothing fits, the others where something does."""

    request: Request
    rows: tuple[Row, ...]
    chosen: Row | None = None
    limits: Limits | None = None
    service: roi.Service | None = None
    reason: str = ""
    changes: tuple[str, ...] = ()


def make(asked: Request) -> Plan:
    """Pure: from what is asked alone."""
    rows = tuple(_row(asked, one) for one in asked.precisions)
    enough = [row for row in rows if row.fit.max_num_seqs >= asked.concurrency]
    if not enough:
        return Plan(asked, rows, reason=advice.reason(asked), changes=tuple(advice.changes(asked)))
    chosen = _choose(enough, asked.candidate)
    assert chosen.speed is not None
    limited = limits(chosen.fit, chosen.speed, asked.contexts, asked.room)
    return Plan(asked, rows, chosen, limited, _service(asked, rows, chosen))


def _row(asked: Request, precision: Precision) -> Row:
    found = fit(asked.model, precision, asked.contexts, asked.room, asked.seqs)
    if not found.fits:
        return Row(found, None)
    return Row(found, speed(asked.model, precision, asked.contexts, asked.room, found.max_num_seqs))


def _choose(rows: Sequence[Row], name: str | None) -> Row:
    """The one that was named; else `lossless`, the first of ours, or the first at all."""
    named = [row for row in rows if row.fit.precision.name == name]
    ours = [row for row in rows if isinstance(row.fit.precision, Ours)]
    return (named or sorted(ours, key=lambda row: row.fit.precision.name != "lossless") or list(rows))[0]


def _service(asked: Request, rows: Sequence[Row], chosen: Row) -> roi.Service | None:
    """None where there is nothing to compare: the baseline does not fit, or is what was chosen."""
    before = next(row for row in rows if row.fit.precision.name == BASELINE)
    if not before.speed or not chosen.speed or before is chosen:
        return None
    room = asked.room
    return roi.Service(
        requests=asked.demand or INSTANCES * before.fit.max_num_seqs,
        seconds=asked.contexts.answer * before.speed.seconds,
        before=before.fit.max_num_seqs,
        after=chosen.fit.max_num_seqs,
        devices=room.ranks,
        price=room.device.price_per_hour,
        watts=room.device.watts,
    )
