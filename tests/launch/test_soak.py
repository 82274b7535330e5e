"""A leak, a creep and a lost block are seen; what is too short is no verdict."""

from __future__ import annotations

import numpy as np
import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from kvant.launch import soak
from kvant.launch.result import Verdict
from kvant.launch.service import Service
from kvant.launch.settings import Soak
from tests.e2e.server import Server
from tests.launch import recorded
from tests.launch.stub import Stub, serving

MIB = 1 << 20


def resident(leak: float, rng: np.random.Generator) -> list[tuple[float, int]]:
    """Two gigabytes after warming up, with some noise, and so many MiB an hour."""
    times = np.arange(0.0, 3600.0, 15.0)
    warm = 200 * np.minimum(times / 600, 1)
    return [
        (t, int((1800 + w + leak * t / 3600 + n) * MIB))
        for t, w, n in zip(times, warm, rng.normal(0, 3, len(times)), strict=True)
    ]


@pytest.mark.parametrize(("leak", "verdict"), [(0, Verdict.PASS), (20, Verdict.PASS), (200, Verdict.FAIL)])
def test_memory_that_grows_after_warming_up_fails(
    leak: float, verdict: Verdict, rng: np.random.Generator
) -> None:
    assert soak._memory(resident(leak, rng), Soak()).verdict is verdict


def test_memory_that_still_settles_is_no_verdict(rng: np.random.Generator) -> None:
    """Five minutes of a real server, stock vLLM as well: growth that halves each time, and no leak yet."""
    found = [
        (t, int((1100 + 400 * (1 - 2 ** (-t / 60)) + n) * MIB))
        for t, n in zip(np.arange(0.0, 300.0, 2.0), rng.normal(0, 2, 150), strict=True)
    ]
    item = soak._memory(found, Soak())
    assert (item.verdict, "soak longer" in item.found) == (Verdict.INCONCLUSIVE, True)


@pytest.mark.parametrize(
    ("creep", "verdict"), [(0.0, Verdict.PASS), (1.0, Verdict.FAIL), (0.25, Verdict.INCONCLUSIVE)]
)
def test_latency_that_creeps_up_fails(creep: float, verdict: Verdict, rng: np.random.Generator) -> None:
    times = np.arange(0.0, 1800.0, 5.0)
    values = rng.lognormal(0, 0.3, len(times)) * (1 + creep * times / 1800 * 4 / 3)
    item = soak._latency(list(zip(times, values, strict=True)), Soak())
    assert item.verdict is verdict, item


def test_too_little_is_no_verdict() -> None:
    assert soak._memory([], Soak()).verdict is Verdict.INCONCLUSIVE
    assert soak._memory([(float(n), MIB) for n in range(8)], Soak()).verdict is Verdict.INCONCLUSIVE
    assert soak._latency([(0.0, 1.0)], Soak()).verdict is Verdict.INCONCLUSIVE


def test_a_block_that_does_not_come_back_fails() -> None:
    sound, lost = recorded.scrape(), recorded.scrape(vllm__kv_cache_usage_perc=0.01)
    assert soak._blocks(sound).verdict is Verdict.PASS
    assert soak._blocks(lost).verdict is Verdict.FAIL
    assert "1.00% of the blocks" in soak._blocks(lost).found


def test_a_log_is_clean_or_its_first_error_is_shown(tmp_path) -> None:
    log = tmp_path / "log"
    log.write_text("INFO all is well\n(Worker) WARNING an error may come\n")
    assert soak._log(log).verdict is Verdict.PASS
    log.write_text("INFO x\n2026 ERROR kvant.server request a failed with KeyError\n")
    item = soak._log(log)
    assert (item.verdict, "failed with KeyError" in item.found) == (Verdict.FAIL, True)


def test_failures_are_counted_where_there_is_no_log() -> None:
    before = recorded.scrape()
    text = recorded.TEXT + 'kvant_requests_rejected_total{reason="timeout"} 3.0\n'
    with serving(Stub(metrics=text)) as service:
        item = soak._counted(before, service.scrape())
    assert (item.verdict, "timeout 3" in item.found) == (Verdict.FAIL, True)
    assert soak._counted(before, before).verdict is Verdict.PASS


def test_requests_that_fail_are_told_by_kind() -> None:
    class Refusing(Stub):
        """Long prompts, but for those that a tokeniser is measured with, are too much for it."""

        async def _answer(self, request: Request) -> Response:
            body = await request.json()
            prompt = body.get("prompt", "")
            if len(prompt) > 500 and body["max_tokens"] > 1:
                return JSONResponse({"error": {"message": "too long"}}, 400)
            return await super()._answer(request)

    with serving(Refusing()) as service:
        step = soak.run(service, Soak(seconds=1.5, streams=3), None, lambda what: None)
    requests = step.items[0]
    assert requests.verdict is Verdict.FAIL
    assert "long: status 400" in requests.found


@pytest.mark.slow
def test_a_real_server_gives_all_blocks_back(server: Server) -> None:
    """Eight seconds are too short for memory and latency; blocks, requests and failures are judged."""
    limits = Soak(seconds=8, streams=3, prompt=64, answer=16)
    step = soak.run(Service.find(server.url), limits, server.folder / "log", lambda what: None)
    by_name = {item.name: item for item in step.items}
    assert by_name["requests"].verdict is Verdict.PASS, step.items
    assert by_name["blocks given back"].verdict is Verdict.PASS, step.items
    assert by_name["log clean"].verdict is Verdict.PASS, step.items
    assert step.facts["asked"] > 3
    assert len(step.facts["resident"]) >= 5
