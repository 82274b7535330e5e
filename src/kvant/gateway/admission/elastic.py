"""How many requests a replica is sent at a time: one more while it keeps up, a share less when it does not.

Additive increase, multiplicative decrease, on what is measured: time between tokens and KV memory in use.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvant.gateway.settings import Scheduling

DECREASE = 0.8
BUSY = 0.8
"""Share of the slots in use at which more are worth trying."""


@dataclass(frozen=True)
class Measured:
    """A replica over the last interval; `per_token` in seconds, None where nothing was streamed."""

    inflight: int
    kv: float
    per_token: float | None


def slots(now: float, measured: Measured, settings: Scheduling) -> float:
    """The next number of slots after this one."""
    target = settings.per_token_seconds
    slow = target is not None and measured.per_token is not None and measured.per_token > target
    if slow or measured.kv > settings.kv_watermark:
        # From what runs: a limit that nothing reaches would take long to come down to where it counts.
        base = min(now, max(measured.inflight, settings.min_concurrency))
        return max(float(settings.min_concurrency), base * DECREASE)
    if measured.inflight >= BUSY * now:
        return min(float(settings.max_concurrency), now + 1)
    return now
