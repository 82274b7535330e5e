"""examples/release is what this version reads and serves; real rollouts: tests/e2e/test_release.py."""

from __future__ import annotations

import runpy
from pathlib import Path

from kvant.gateway.settings import load
from tests.gateway.engine import Engine

RELEASE = Path(__file__).parents[2] / "examples" / "release"


def test_the_settings_hold_two_arms_of_which_the_baseline_is_16_bits() -> None:
    found = load(RELEASE / "gateway.yaml").settings
    assert found.arms.candidate is not None
    engines = [arm.serve for arm in (found.arms.baseline, found.arms.candidate)]
    assert [one.kv_cache.enable_quant for one in engines if one is not None] == [False, True]


def test_the_traffic_asks_as_different_users() -> None:
    with Engine() as engine:
        traffic = runpy.run_path(str(RELEASE / "traffic.py"))["Traffic"](engine.url, "stub", 1500, 8, 0)
        for _ in range(3):
            traffic.ask()
        traffic.client.close()
    assert (traffic.sent, traffic.failed) == (3, 0)
    bodies = [one["body"] for one in engine.requests]
    assert len({one["user"] for one in bodies}) == 3
    assert all(len(one["messages"][0]["content"]) > 1500 for one in bodies)
