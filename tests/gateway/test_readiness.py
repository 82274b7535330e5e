"""Engines that load answer probes but take no calls; copies that come too late say nothing of their arm."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from kvant.gateway import table
from kvant.gateway.arms.replica import DOWN_SECONDS
from tests.gateway.engine import Engine
from tests.gateway.running import HELLO, Running
from tests.gateway.test_release import command, gateway, status, traffic

FAST = {"scheduling": {"poll_seconds": 0.1}}


def until(done: Callable[[], bool], seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def ups(running: Running) -> dict[str, int]:
    return dict(httpx.get(f"{running.url}/ready").json()["replicas_up"])


def test_a_gateway_is_not_ready_before_its_baseline(tmp_path: Path) -> None:
    with (
        Engine(ready=False) as baseline,
        Engine() as candidate,
        gateway(tmp_path, baseline, candidate, **FAST) as running,
    ):
        until(lambda: ups(running) == {"baseline": 0, "candidate": 1})
        assert httpx.get(f"{running.url}/ready").status_code == 503
        baseline.ready = True
        until(lambda: httpx.get(f"{running.url}/ready").status_code == 200)


def test_a_candidate_that_loads_is_not_blamed_and_its_users_are_answered(tmp_path: Path) -> None:
    """As after a restart of a gateway with engines of its own."""
    with (
        Engine() as baseline,
        Engine() as candidate,
        gateway(tmp_path, baseline, candidate, **FAST) as running,
    ):
        until(lambda: ups(running) == {"baseline": 1, "candidate": 1})
        for name in ("start", "promote", "promote"):
            command(running, name)
        candidate.ready, candidate.fault = False, "503"
        until(lambda: ups(running) == {"baseline": 1, "candidate": 0})
        sent = 0
        traffic(running, lambda: len(baseline.requests) >= 20)
        assert status(running)["weight"] == 1
        assert not candidate.requests, "neither calls nor copies"
        assert status(running)["quantities"]["failures"]["n"] == 0
        candidate.ready, candidate.fault = True, ""
        until(lambda: ups(running) == {"baseline": 1, "candidate": 1})
        sent = len(candidate.requests)
        assert running.post({"messages": HELLO}).status_code == 200
        assert len(candidate.requests) > sent


def test_an_engine_that_loads_and_is_too_busy_to_say_so_is_not_taken_for_ready(tmp_path: Path) -> None:
    with (
        Engine(ready=False) as baseline,
        Engine() as candidate,
        gateway(tmp_path, baseline, candidate, **FAST) as running,
    ):
        until(lambda: ups(running)["baseline"] == 0)
        baseline.pause = 20.0
        time.sleep(DOWN_SECONDS + 0.5)
        assert ups(running)["baseline"] == 0


def test_a_copy_that_is_too_late_is_no_failure_of_the_candidate(tmp_path: Path) -> None:
    shadow = {"share": 1.0, "in_flight": 8, "tokens_per_minute": 10_000_000, "seconds": 0.1}
    with (
        Engine() as baseline,
        Engine(first=5.0) as candidate,
        gateway(tmp_path, baseline, candidate, shadow=shadow, **FAST) as running,
    ):
        command(running, "start")
        traffic(running, lambda: len(candidate.requests) >= 8)
        time.sleep(0.3)
        assert status(running)["quantities"]["failures"]["n"] == 0
        assert status(running)["phase"] == "shadow"


def test_the_table_says_where_everything_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (
        Engine() as baseline,
        Engine() as candidate,
        gateway(tmp_path, baseline, candidate, audit={"file": str(tmp_path / "audit")}) as running,
    ):
        table.show(running.gateway, running.url)
    shown = capsys.readouterr().out
    for place in (f"{running.url}/v1, without keys", baseline.url, candidate.url, "kvant rollout start",
                  f"{running.url}/metrics", "kvant gateway audit"):  # fmt: skip
        assert place in shown
