"""How many requests a replica is sent follows what is measured of it."""

from __future__ import annotations

from kvant.gateway.admission.elastic import Measured, slots
from kvant.gateway.settings import Scheduling

SETTINGS = Scheduling(max_concurrency=64, min_concurrency=4, per_token_seconds=0.05, kv_watermark=0.9)


def test_one_more_while_it_keeps_up_and_only_if_they_are_used() -> None:
    assert slots(10, Measured(inflight=10, kv=0.5, per_token=0.02), SETTINGS) == 11
    assert slots(10, Measured(inflight=2, kv=0.5, per_token=0.02), SETTINGS) == 10
    assert slots(64, Measured(inflight=64, kv=0.5, per_token=None), SETTINGS) == 64


def test_a_share_less_when_tokens_are_slow_or_memory_is_full() -> None:
    assert slots(10, Measured(inflight=10, kv=0.5, per_token=0.06), SETTINGS) == 8
    assert slots(10, Measured(inflight=10, kv=0.95, per_token=0.01), SETTINGS) == 8
    assert slots(64, Measured(inflight=10, kv=0.95, per_token=None), SETTINGS) == 8
    assert slots(4, Measured(inflight=4, kv=1.0, per_token=1.0), SETTINGS) == 4


def test_it_settles_around_what_an_engine_can_do() -> None:
    now, seen = 64.0, []
    for _ in range(200):
        running = int(now)
        now = slots(now, Measured(running, kv=0.2, per_token=0.002 * running), SETTINGS)
        seen.append(now)
    assert 18 <= min(seen[50:]) <= max(seen[50:]) <= 27
