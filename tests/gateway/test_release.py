"""A release from end to end over real sockets: traffic in, evidence, phases, and back at once."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx

from kvant.gateway.app import Gateway
from kvant.gateway.release import Release
from tests.e2e.server import until
from tests.gateway.engine import Engine
from tests.gateway.running import HELLO, Running, settings

QUICK = {"dwell": 0.0, "compared": 20, "served": 0, "proof": ["divergence"]}
SECTIONS: dict[str, Any] = {
    "shadow": {"share": 1.0, "in_flight": 8, "tokens_per_minute": 10_000_000},
    "comparing": {"share": 1.0, "in_flight": 8, "per_minute": 100_000},
    "limits": {"requests_per_minute": None, "tokens_per_minute": None},
}


def gateway(folder: Path, baseline: Engine, candidate: Engine, **more: Any) -> Running:
    plan = {
        "state": str(folder / "rollout.db"),
        "shadow": {"weight": 0.0, **QUICK},
        "canary": [{"weight": 0.5, **QUICK}],
    }
    made = settings([baseline], [candidate], **{**SECTIONS, "rollout": plan, **more})

    def plug(gateway: Gateway) -> None:
        assert gateway.settings.arms.candidate is not None
        Release(gateway, gateway.settings.arms.candidate)

    return Running(made, plug)


def command(running: Running, name: str) -> dict[str, Any]:
    answer = httpx.post(f"{running.url}/rollout/{name}")
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def status(running: Running) -> dict[str, Any]:
    return dict(httpx.get(f"{running.url}/rollout").json())


def traffic(running: Running, until: Callable[[], bool], seconds: float = 20.0) -> int:
    """Calls of different users until something is so; how many."""
    end, sent = time.monotonic() + seconds, 0
    with httpx.Client(timeout=20) as client:
        while not until():
            assert time.monotonic() < end, str(status(running))
            for _ in range(10):
                body = {"model": "stub", "messages": HELLO, "max_tokens": 16, "user": f"user-{sent}"}
                assert client.post(running.url + "/v1/chat/completions", json=body).status_code == 200
                sent += 1
    return sent


def asked(engine: Engine) -> list[Any]:
    """The calls that it has had, without what it scores: a comparison may end after its phase."""
    return [one for one in engine.requests if "prompt_logprobs" not in one["body"]]


def test_a_sound_candidate_goes_from_nothing_to_full_and_back_by_hand(tmp_path: Path) -> None:
    with Engine() as baseline, Engine() as candidate, gateway(tmp_path, baseline, candidate) as running:
        traffic(running, lambda: True)
        assert status(running)["phase"] == "idle"
        assert not candidate.requests
        command(running, "start")
        traffic(running, lambda: status(running)["phase"] == "full")
        seen = [entry["phase"] for entry in status(running)["history"]]
        assert seen == ["shadow", "canary", "full"]
        before = len(baseline.requests)
        running.post({"messages": HELLO, "user": "somebody"})
        assert not [one for one in baseline.requests[before:] if one["body"].get("user") == "somebody"]
        assert command(running, "rollback")["phase"] == "rolled_back"
        before, calls = len(baseline.requests), len(asked(candidate))
        traffic(running, lambda: len(baseline.requests) > before)
        assert len(asked(candidate)) == calls


def test_a_candidate_that_answers_otherwise_is_rolled_back_in_shadow(tmp_path: Path) -> None:
    with (
        Engine() as baseline,
        Engine(logprob=-3.0) as candidate,
        gateway(tmp_path, baseline, candidate) as run,
    ):
        command(run, "start")
        sent = traffic(run, lambda: status(run)["phase"] == "rolled_back")
        found = status(run)
        assert found["counts"]["compared"]["total"] <= 200
        assert "divergence" in found["reason"]
        assert found["counts"]["served.candidate"]["total"] == 0
        assert sent > 0


def test_metrics_of_a_release(tmp_path: Path) -> None:
    with Engine() as baseline, Engine() as candidate, gateway(tmp_path, baseline, candidate) as running:
        command(running, "start")
        traffic(running, lambda: status(running)["counts"]["compared"]["total"] > 5)
        text = httpx.get(f"{running.url}/metrics").text
        assert 'kvant_rollout_phase{phase="shadow"} 1.0' in text
        assert "kvant_rollout_weight 0.0" in text
        assert re.search(r'kvant_rollout_e_value\{direction="worse",quantity="divergence"\} \S+', text)
        assert 'kvant_rollout_breaker{state="closed"} 1.0' in text


def test_a_restart_goes_on_where_it_was(tmp_path: Path) -> None:
    with Engine() as baseline, Engine() as candidate:
        with gateway(tmp_path, baseline, candidate) as running:
            command(running, "start")
            command(running, "promote")
            before = status(running)
        with gateway(tmp_path, baseline, candidate) as running:
            assert (status(running)["phase"], status(running)["weight"]) == (
                before["phase"],
                before["weight"],
            )


def test_what_an_administrator_does_is_in_the_audit_log(tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    with Engine() as baseline, Engine() as candidate:
        with gateway(tmp_path, baseline, candidate, audit={"file": log}) as running:
            command(running, "start")
            status(running)
            assert httpx.post(f"{running.url}/rollout/resume").status_code == 409
        rows = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(row["path"], row["status"], row["outcome"]) for row in rows] == [
        ("/rollout/start", 200, "steered"),
        ("/rollout/resume", 409, "steered"),
    ]


def test_a_candidate_that_is_down_is_not_promoted_and_time_stands_still(tmp_path: Path) -> None:
    with Engine() as baseline, ExitStack() as engines:
        candidate = engines.enter_context(Engine())
        with gateway(tmp_path, baseline, candidate) as running:
            command(running, "start")
            engines.close()
            until(lambda: status(running)["trouble"], 10)
            assert status(running)["trouble"] == "no replica of the candidate is up"
            before = status(running)["dwelt"]
            time.sleep(1.2)
            assert status(running)["dwelt"] == before
            refused = httpx.post(f"{running.url}/rollout/promote")
            assert refused.status_code == 409
            assert refused.json()["detail"] == "promote: no replica of the candidate is up"


def test_calls_of_a_baseline_that_is_not_up_are_no_failures_of_it(tmp_path: Path) -> None:
    """They would hide a candidate that fails: what it may fail is counted from the baseline's rate."""
    with Engine() as baseline, Engine() as candidate, gateway(tmp_path, baseline, candidate) as run:
        command(run, "start")
        assert run.post({"messages": HELLO}).status_code == 200
        until(lambda: status(run)["quantities"]["failures"]["baseline_n"] == 1, 10)
        baseline.ready, baseline.fault = False, "503"  # as an engine that loads
        until(lambda: status(run)["trouble"] == "no replica of the baseline is up", 10)
        before = status(run)["dwelt"]
        for _ in range(5):
            assert run.post({"messages": HELLO}).status_code >= 500
        baseline.ready = True
        until(lambda: not status(run)["trouble"], 10)
        assert status(run)["dwelt"] - before < 1.0, "time in the phase stood still"
        baseline.fault = ""
        assert run.post({"messages": HELLO}).status_code == 200
        until(lambda: status(run)["quantities"]["failures"]["baseline_n"] >= 2, 10)
        failures = status(run)["quantities"]["failures"]
        assert (failures["baseline_n"], failures["baseline"]) == (2, 0.0)
        baseline.fault = "500"
        assert run.post({"messages": HELLO}).status_code >= 500
        until(lambda: status(run)["quantities"]["failures"]["baseline_n"] == 3, 10)
        assert status(run)["quantities"]["failures"]["baseline"] == 1 / 3


def test_a_candidate_whose_logits_are_no_numbers_is_rolled_back(tmp_path: Path) -> None:
    with (
        Engine() as baseline,
        Engine(logprob=math.nan) as candidate,
        gateway(tmp_path, baseline, candidate) as run,
    ):
        command(run, "start")
        traffic(run, lambda: status(run)["phase"] == "rolled_back")
        found = status(run)
        assert found["reason"].startswith("failures: ")
        assert found["counts"]["served.candidate"]["total"] == 0
        assert found["quantities"]["failures"]["n"] <= 200
