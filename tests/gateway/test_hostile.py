"""Requests made to hurt: none crashes the gateway, leaks a slot or reaches an engine."""

from __future__ import annotations

import asyncio
import http.client
import json
import random
import socket
import time
from collections.abc import Iterator

import httpx
import psutil
import pytest

from kvant.gateway import intake
from kvant.gateway.admission.quotas import Quotas
from kvant.gateway.settings import Limits
from kvant.http.body import Refused
from tests.e2e.server import until
from tests.gateway.engine import Engine
from tests.gateway.running import HELLO, Running, settings

GOOD = json.dumps({"model": "stub", "messages": HELLO}).encode()


def bad_request(draw: random.Random) -> bytes:
    """Raw bytes of one request that deserves a refusal, or no answer at all."""
    path = draw.choice(["/v1/chat/completions", "/v1/completions", "/tokenize"])
    body = draw.choice(
        [
            b"{",
            b"[]",
            b"null",
            b'"x"',
            b"\xff\xfe\xfd",
            b'{"model": "\xc3("}',
            b'{"messages": NaN}',
            b'{"n": 1e999}',
            b'{"n": 100000, "prompt": "x"}',
            b'{"n": "two", "prompt": "x"}',
            b"[" * 20_000,
            b'{"a":' * 5_000,
            b'{"x": "\\ud800"}',
            b"1" * 10_000,
            bytes(draw.randrange(256) for _ in range(64)),
        ]
    )
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\n"
    kind = draw.randrange(8)
    if kind == 0:
        return (head + f"X-Big: {'a' * 80_000}\r\n\r\n").encode()
    if kind == 1:
        return (head + "Content-Length: -5\r\n\r\n").encode()
    if kind == 2:
        return (head + "Content-Length: 99999999999999999999999\r\n\r\n").encode()
    if kind == 3:
        return (head + "Transfer-Encoding: chunked\r\n\r\nzz\r\n").encode()
    if kind == 4:
        return b"\x16\x03\x01\x02\x00\x01" + bytes(draw.randrange(256) for _ in range(100))
    if kind == 5:
        head = "POST /v1/completions HTTP/1.1\r\nHost: x\r\nX-Request-Priority: soon\r\n"
        return head.encode() + b"Content-Length: %d\r\n\r\n" % len(GOOD) + GOOD
    headers = f"x-request-id: {'%' * draw.randrange(300)}\r\nContent-Length: {len(body)}\r\n\r\n"
    return (head + headers).encode() + body


async def throw(port: int, count: int, draw: random.Random, at_a_time: int = 50) -> list[bytes]:
    """The first line of every answer; empty where the connection was closed without one."""
    limit = asyncio.Semaphore(at_a_time)

    async def one() -> bytes:
        async with limit:
            raw = bad_request(draw)
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(raw)
                line = await asyncio.wait_for(reader.readline(), 30)
                writer.close()
            except ConnectionError:
                return b""
            return line

    return await asyncio.gather(*(one() for _ in range(count)))


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine() as one:
        yield one


@pytest.mark.parametrize("count", [400, pytest.param(10_000, marks=pytest.mark.slow)])
def test_bad_requests_are_refused_and_nothing_leaks(engine: Engine, count: int) -> None:
    process = psutil.Process()
    with Running(settings([engine], scheduling={"poll_seconds": 600.0})) as gateway:
        asyncio.run(throw(gateway.port, 200, random.Random(1)))
        memory, files = process.memory_info().rss, process.num_fds()
        lines = asyncio.run(throw(gateway.port, count, random.Random(2)))
        status = {line.split()[1] for line in lines if line}
        assert status <= {b"400", b"413", b"404", b"422"}
        assert sum(1 for line in lines if line) > 0.75 * count  # some are reset with their answer unread
        assert engine.requests == []
        assert gateway.gateway.door.quotas.used == 0
        # Connections that were reset take a moment to go.
        until(
            lambda: process.num_fds() <= files + 10, 20, lambda: f"{process.num_fds()} files, {files} before"
        )
        assert process.memory_info().rss - memory < 64 << 20
        assert httpx.post(
            gateway.url + "/v1/chat/completions", content=GOOD, headers={"Content-Type": "application/json"}
        ).is_success


def test_many_half_open_connections_keep_nobody_out(engine: Engine) -> None:
    async def crowd(port: int) -> int:
        open_ = [await asyncio.open_connection("127.0.0.1", port) for _ in range(200)]
        for _, writer in open_:
            writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 100\r\nX: ")
        async with httpx.AsyncClient(timeout=10) as client:
            answer = await client.post(
                f"http://127.0.0.1:{port}/v1/chat/completions", json={"model": "stub", "messages": HELLO}
            )
        for _, writer in open_:
            writer.close()
        return answer.status_code

    with Running(settings([engine])) as gateway:
        assert asyncio.run(crowd(gateway.port)) == 200


def test_a_body_with_two_lengths_is_refused_and_nothing_after_it_is_read(engine: Engine) -> None:
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n" % len(GOOD)
    chunked = b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(GOOD), GOOD)
    with (
        Running(settings([engine])) as gateway,
        socket.create_connection(("127.0.0.1", gateway.port), timeout=10) as one,
    ):
        one.sendall(head + chunked + head + b"\r\n" + GOOD)
        with one.makefile("rb") as answers:
            told = answers.read()
    assert told.startswith(b"HTTP/1.1 400")
    assert told.count(b"HTTP/1.1") == 1
    assert engine.requests == []


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
@pytest.mark.parametrize("asked", ["1000", 1000.0, True, [9]])
def test_a_length_that_our_limits_cannot_read_reaches_no_engine(name: str, asked: object) -> None:
    with pytest.raises(Refused, match=f"{name} must be a whole number"):
        intake.check({"messages": HELLO, name: asked}, Limits(answer_tokens=10))


@pytest.mark.parametrize("asked", [10**9, 10**400], ids=["billion", "googol"])
def test_who_asks_for_endless_tokens_takes_no_slot_and_keeps_nobody_out(asked: int) -> None:
    quotas = Quotas(Limits(tokens_per_minute=600_000, concurrency=2))
    with quotas.granted(None, asked):
        assert quotas.used == 1
    with quotas.granted(None, asked), pytest.raises(Refused) as refused, quotas.granted(None, 600_000):
        pass
    assert (refused.value.refusal.retry_after or 0) <= 60
    assert quotas.used == 0


@pytest.mark.slow
def test_a_connection_outlives_the_time_that_clients_keep_it(engine: Engine) -> None:
    """httpx, and so OpenAI's client, uses one again for 5 s."""
    with Running(settings([engine])) as gateway:
        client = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=10)
        client.connect()
        first = client.sock
        for pause in (6.0, 0.0):
            client.request("GET", "/health")
            assert client.getresponse().read()
            assert client.sock is first
            time.sleep(pause)
        client.close()
