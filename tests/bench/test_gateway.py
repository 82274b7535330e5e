"""`kvant bench gateway` at its smallest: real processes, real streams."""

from __future__ import annotations

import pytest

from kvant.bench.gateway import run
from kvant.bench.gateway.client import Heard
from kvant.bench.gateway.run import Plan


@pytest.mark.slow
def test_both_sides_are_measured_and_streams_are_held() -> None:
    said: list[str] = []
    plan = Plan(streams=4, tokens=5, per_token=0.01, rounds=2, seconds=0.5, held=20, held_seconds=2.0)
    found = run.measure(plan, said.append)
    assert [line.split(":")[0] for line in said] == [
        "round 1, bare",
        "round 1, kvant",
        "round 2, kvant",
        "round 2, bare",
    ]
    for side in ("bare", "kvant"):
        figures = found["sides"][side]
        assert figures["failures"] == 0
        assert figures["tokens"] >= 2 * 4 * 5
        assert 0 < figures["token_ms"]["p50"] <= figures["token_ms"]["p99"]
        assert figures["first_ms"]["p50"] >= 10
    assert set(found["added"]) == {"kvant"}
    held = run.hold(plan, said.append)
    assert held["tokens"] == held["expected_tokens"] == 40
    assert held["failures"] == 0


def test_what_a_proxy_adds_is_the_median_over_rounds() -> None:
    bare = [Heard(delays=[0.001], firsts=[0.01]) for _ in range(3)]
    proxy = [Heard(delays=[0.001 + add], firsts=[0.01 + add]) for add in (0.001, 0.5, 0.002)]
    added = run._added(bare, proxy)
    assert round(added["token_p50_ms"]["median"], 6) == 2.0
    assert round(added["first_p99_ms"]["max"], 6) == 500.0
