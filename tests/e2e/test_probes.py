"""Probes, metrics, the table and the log of a running service."""

from __future__ import annotations

import re
import time

import httpx
import pytest

from kvant.engine.serve import COUNT_SECONDS
from tests.e2e.fixtures import BLOCK_SIZE, BLOCKS, KEY
from tests.e2e.server import MODEL, Server, until

LAYERS, KV_HEADS, HEAD_DIM = 30, 3, 64
INT8_BYTES = LAYERS * KV_HEADS * 2 * (HEAD_DIM + 2)
BF16_BYTES = LAYERS * KV_HEADS * 2 * HEAD_DIM * 2


def test_ready_says_what_is_served(server: Server) -> None:
    answer = server.get("/ready").json()
    assert answer["status"] == "ready"
    assert answer["formats"] == "int8/int8"
    assert answer["bytes_per_token"] == INT8_BYTES
    assert answer["tokens"] == (BLOCKS - 1) * BLOCK_SIZE  # as `kvant doctor` counts: one is vLLM's own
    assert re.fullmatch("[0-9a-f]{64}", answer["identity"])
    assert server.get("/health").status_code == 200


def test_metrics_are_ours_and_vllms_without_repeating_any(server: Server) -> None:
    text = server.get("/metrics").text
    assert server.metric("kvant_ready") == 1
    assert server.metric("kvant_cache_bytes_per_token") == INT8_BYTES
    assert server.metric("kvant_effective_bits") == INT8_BYTES * 8 / (LAYERS * KV_HEADS * 2 * HEAD_DIM)
    assert server.metric("kvant_build_info", formats="int8/int8", engine_version="0.32.0") == 1
    assert server.metric("vllm:cache_config_info") == 1
    families = re.findall(r"^# TYPE (\S+)", text, re.MULTILINE)
    assert len(families) == len(set(families))


def test_the_shares_of_encoding_and_attention_in_a_step_are_counted(server: Server) -> None:
    def seconds(part: str) -> float:
        return server.metric("kvant_model_seconds_total", part=part)

    before = {part: seconds(part) for part in ("step", "encode", "attend")}
    server.client().completions.create(model=MODEL, prompt="count " * 200, max_tokens=8)
    until(lambda: seconds("step") > before["step"], 30, lambda: "no step was ever counted")
    spent = {part: seconds(part) - before[part] for part in before}
    assert min(spent.values()) > 0
    assert spent["encode"] + spent["attend"] < spent["step"]


def test_a_refused_request_is_counted_by_its_reason(server: Server) -> None:
    before = server.metric("kvant_requests_rejected_total", reason="malformed")
    httpx.post(f"{server.url}/v1/completions", content=b"{", headers={"content-type": "application/json"})
    assert server.metric("kvant_requests_rejected_total", reason="malformed") == before + 1


@pytest.mark.slow  # 20 seconds of doing nothing
def test_a_service_that_nobody_asks_leaves_the_processors_alone(server: Server) -> None:
    def used() -> float:
        return sum(sum(process.cpu_times()[:2]) for process in server.processes())

    server.client().completions.create(model=MODEL, prompt="One, two,", max_tokens=4)
    time.sleep(2 * COUNT_SECONDS + 2)
    before = used()
    time.sleep(8)
    assert used() - before < 0.4


def test_the_table_is_printed_once_with_the_numbers_of_the_engine(server: Server) -> None:
    log = server.log
    assert log.count("bytes per token:") == 1
    assert f"bytes per token:  {INT8_BYTES:,} (bf16: {BF16_BYTES:,}, 1.94x)" in log
    assert "int8/int8, 8.25 bits per element" in log
    assert f"{BLOCKS} blocks of {BLOCK_SIZE} tokens" in log
    assert f"curl {server.url}/v1/chat/completions" in log
    assert MODEL in log


def test_neither_prompts_nor_keys_nor_queries_are_logged(strict: Server) -> None:
    # This server logs at level debug.
    secret = "canary-in-the-prompt-8861"
    client = strict.client(KEY)
    client.completions.create(model=MODEL, prompt=f"{secret} sings", max_tokens=4)
    client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": f"{secret} sings"}], max_tokens=4, stream=True
    ).close()
    strict.get(f"/v1/models?question={secret}")
    httpx.post(f"{strict.url}/v1/completions", json={"prompt": {"bad": secret}}, headers=bearer(KEY))
    httpx.post(f"{strict.url}/v1/completions", json={"prompt": secret}, headers=bearer("wrong-key-5512"))
    assert "/v1/completions 200" in strict.log
    for hidden in (secret, KEY, "wrong-key-5512"):
        assert hidden not in strict.log


def test_a_metrics_port_serves_metrics_alone_and_is_the_only_one(strict: Server) -> None:
    port = strict.settings["monitoring"]["metrics_port"]
    text = httpx.get(f"http://127.0.0.1:{port}/metrics").text
    assert "kvant_ready 1.0" in text
    assert "vllm:num_requests_running" in text
    assert httpx.get(f"http://127.0.0.1:{port}/v1/models").status_code == 404
    assert strict.get("/metrics", headers=bearer(KEY)).status_code == 404


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}
