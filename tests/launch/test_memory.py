"""The plan against a real server that was configured so, and against one that was not."""

from __future__ import annotations

from kvant.config import load
from kvant.launch import memory
from kvant.launch.result import Verdict
from kvant.launch.service import Service
from tests.e2e.server import Server
from tests.launch.stub import Stub, serving


def test_a_real_server_has_what_the_plan_says(server: Server) -> None:
    step = memory.run(Service.find(server.url), load(server.folder / "kvant.yaml"), 0.01)
    assert step.verdict is Verdict.PASS, step.items
    assert step.facts["found"]["bytes"] == step.facts["planned"]["bytes"] > 0


def test_another_cache_than_configured_fails(server: Server) -> None:
    bits = load(None, {"kv_cache.preset": "lossless", "kv_cache.max_cache_blocks": 64})
    found = memory.run(Service.find(server.url), bits, 0.01).items
    assert [item.verdict for item in found] == [Verdict.FAIL, Verdict.PASS]
    blocks = load(server.folder / "kvant.yaml", {"kv_cache.max_cache_blocks": 65})
    found = memory.run(Service.find(server.url), blocks, 0.01).items
    assert [item.verdict for item in found] == [Verdict.PASS, Verdict.FAIL]


def test_what_cannot_be_planned_is_inconclusive() -> None:
    with serving(Stub(metrics="# nothing\n")) as service:
        step = memory.run(service, load(None), 0.01)
    assert step.verdict is Verdict.INCONCLUSIVE
    assert "kvant_cache_bytes_per_token" in step.items[0].found
    with serving(Stub()) as service:
        assert "-c FILE" in memory.run(service, None, 0.01).items[0].found


def test_the_recorded_server_is_as_planned() -> None:
    settings = load(None, {"kv_cache.memory_gib": 0.25, "serving.max_batch": 4})
    with serving(Stub()) as service:
        step = memory.run(service, settings, 0.01)
    assert [item.found for item in step.items] == [
        "5,940, planned 5,940: +0.00%",
        "651, planned 651: +0.00%",
    ]
