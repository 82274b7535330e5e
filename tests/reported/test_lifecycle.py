"""Reported failures in the life of a request: H5-39 (can never fit), H5-40 (the client is gone)."""

from __future__ import annotations

import itertools
import socket
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from tests.e2e.fixtures import BLOCKS, ROOM, small
from tests.e2e.server import MODEL, Server, serving, until

LONG = {"model": MODEL, "max_tokens": 1500, "ignore_eos": True}


# H5-39


def test_h5_39_a_request_that_can_never_fit_is_refused_and_blocks_nobody(server: Server) -> None:
    client = server.client()
    began = time.monotonic()
    with pytest.raises(openai.BadRequestError) as refused:
        client.completions.create(model=MODEL, prompt=[100] * 3000, max_tokens=1)
    assert time.monotonic() - began < 2
    assert "3000" in refused.value.message
    assert str(ROOM) in refused.value.message

    with ThreadPoolExecutor(5) as pool:
        small_ones = pool.map(
            lambda n: client.completions.create(model=MODEL, prompt=f"{n}", max_tokens=2), range(5)
        )
        assert all(answer.choices[0].text for answer in small_ones)


def test_h5_39_a_request_that_reaches_the_end_of_the_pool_says_so_and_frees_it(server: Server) -> None:
    asked = {**LONG, "prompt": [100] * (ROOM - 60), "max_tokens": 2000}
    answer = httpx.post(f"{server.url}/v1/completions", json=asked, timeout=120).json()
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"]["total_tokens"] == ROOM
    idle(server)


def test_h5_39_a_context_that_the_pool_can_never_hold_is_refused_at_start(tmp_path: Path) -> None:
    settings = small(serving={"max_context": 4000})
    with serving(tmp_path, settings) as server:
        assert server.process.wait(120) != 0
        error = server.log.splitlines()[-1]
        assert error.startswith(
            "error: serving.max_context: 4000 tokens do not fit kv_cache.max_cache_blocks"
        )
        assert str(BLOCKS) in error
        assert str(ROOM) in error


# H5-40

WAYS = ("reset", "close", "timeout")
STAGES = ("queued", "prefill", "decode")


def abandoned(server: Server, way: str, stream: bool, stage: str) -> None:
    """One request whose client leaves in the given way at the given stage."""
    prompt = "1 2 3" if stage == "decode" else [7 + hash((way, stream)) % 1000] * 1200
    body = httpx.Request(
        "POST", server.url, json={**LONG, "prompt": prompt, "max_tokens": 700, "stream": stream}
    )
    head = "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    connection = socket.create_connection(("127.0.0.1", server.port))
    with connection:
        connection.sendall(f"{head}Content-Length: {len(body.content)}\r\n\r\n".encode() + body.content)
        if way == "timeout":
            connection.settimeout(0.05 if stage != "decode" else 0.4)
            try:
                while connection.recv(65536):
                    pass
            except TimeoutError:
                pass
        else:
            time.sleep(0.02 if stage != "decode" else 0.3)
        if way == "reset":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def cycles(server: Server, count: int) -> None:
    kinds = itertools.islice(itertools.cycle(itertools.product(WAYS, (True, False), STAGES)), count)
    for way, stream, stage in kinds:
        holders = [
            threading.Thread(target=abandoned, args=(server, "close", True, "decode")) for _ in range(4)
        ]
        # Four sequences fill the batch, so that the next one waits.
        for holder in holders if stage == "queued" else ():
            holder.start()
        if stage == "queued":
            time.sleep(0.05)
        abandoned(server, way, stream, stage)
        for holder in holders if stage == "queued" else ():
            holder.join()
    idle(server)


def idle(server: Server) -> None:
    """Nothing runs, waits or holds a block, within two seconds."""

    def quiet() -> bool:
        return not any(
            server.metric(name)
            for name in (
                "vllm:num_requests_running",
                "vllm:num_requests_waiting",
                "vllm:kv_cache_usage_perc",
                "kvant_inflight_requests",
            )
        )

    until(quiet, 2, lambda: f"still busy:\n{server.get('/metrics').text}")


def test_h5_40_clients_that_leave_free_their_blocks(server: Server) -> None:
    cycles(server, len(WAYS) * len(STAGES) * 2)


@pytest.mark.slow
def test_h5_40_two_hundred_clients_that_leave(server: Server) -> None:
    cycles(server, 200)


def test_h5_40_normal_ends_are_no_aborts(server: Server) -> None:
    def ended(reason: str) -> float:
        return server.metric("vllm:request_success_total", finished_reason=reason)

    before = ended("length"), ended("abort")
    client = server.client()

    def ask(n: int) -> Any:
        return client.completions.create(
            model=MODEL, prompt=f"{n} is", max_tokens=2, extra_body={"ignore_eos": True}
        )

    with ThreadPoolExecutor(8) as pool:
        assert len(list(pool.map(ask, range(40)))) == 40
    until(lambda: ended("length") == before[0] + 40, 5)
    assert ended("abort") == before[1]
    idle(server)
