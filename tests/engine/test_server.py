"""The door in front of the engine, with a small ASGI app where vLLM's would be."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from kvant.config import Settings
from kvant.engine import exchange
from kvant.engine.drain import drain
from kvant.engine.keys import Keys
from kvant.engine.server import Door
from kvant.engine.verify import EngineReport
from kvant.http import envelope
from kvant.http.body import MAX_BYTES
from kvant.http.stop import Stop
from kvant.telemetry.metrics import Metrics

REPORT = EngineReport(
    formats="int8/int8",
    layers=(),
    effective_bits=8.25,
    bytes_per_token=11_880,
    bytes_per_token_bf16=23_040,
    num_blocks=64,
    block_size=32,
    tokens=2048,
    kv_bytes=24_330_240,
    exact_bytes=0,
    ranks=1,
    threads=2,
    kernel="avx512",
    why_not_better="",
    digest="d" * 64,
)
Handler = Callable[[Any, Any, Any], Awaitable[None]]


def settings(**serving: Any) -> Settings:
    return Settings.model_validate({"serving": serving})


def door(inner: Handler | None = None, keys: Keys | None = None, **serving: Any) -> Door:
    made = Door(settings(**serving), keys or Keys(), Metrics())
    if inner is not None:
        made.open(inner, REPORT, lambda path, parsed: None)
    return made


@asynccontextmanager
async def client(app: Door) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://door") as made:
        yield made


async def answers(scope: Any, receive: Any, send: Any, status: int = 200, body: bytes = b'{"ok": 1}') -> None:
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))],
        }
    )
    await send({"type": "http.response.body", "body": body})


class Slow:
    """Streams an event, or nothing, and then waits for the client to leave, as a generation does."""

    def __init__(self, stream: bool) -> None:
        self.stream = stream
        self.running = 0
        self.aborted = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        assert (await receive())["type"] == "http.request"
        self.running += 1
        if self.stream:
            headers = [(b"content-type", b"text/event-stream; charset=utf-8")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": b"data: {}\n\n", "more_body": True})
        assert (await receive())["type"] == "http.disconnect"
        self.running -= 1
        self.aborted += 1
        # What vLLM's handler does when its client is gone: it answers null to nobody.
        if not self.stream:
            await answers(scope, receive, send, body=b"null")


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 30))


async def complete(http: httpx.AsyncClient, **options: Any) -> httpx.Response:
    return await http.post("/v1/completions", **({"json": {"prompt": "a"}} | options))


def test_until_the_engine_is_up_only_probes_answer() -> None:
    async def test() -> None:
        async with client(door()) as http:
            assert (await http.get("/health")).status_code == 200
            ready = await http.get("/ready")
            assert (ready.status_code, ready.json()["status"]) == (503, "loading")
            assert (await http.get("/metrics")).text.count("kvant_ready 0.0") == 1
            for answer in (await http.get("/v1/models"), await complete(http)):
                assert answer.status_code == 503
                assert int(answer.headers["retry-after"]) > 0
                assert answer.json()["error"]["type"] == "ServiceUnavailableError"

    run(test)


def test_an_open_door_passes_requests_on_and_tags_them() -> None:
    seen: list[Any] = []

    async def inner(scope: Any, receive: Any, send: Any) -> None:
        seen.append((scope["path"], dict(scope["headers"])[b"x-request-id"], (await receive())["body"]))
        await answers(scope, receive, send)

    async def test() -> None:
        async with client(door(inner)) as http:
            ready = (await http.get("/ready")).json()
            assert ready["identity"] == REPORT.digest
            answer = await complete(http, headers={"x-request-id": "mine"})
        assert answer.json() == {"ok": 1}
        assert answer.headers["x-request-id"] == "mine"
        assert seen == [("/v1/completions", b"mine", b'{"prompt":"a"}')]

    run(test)


@pytest.mark.parametrize("forged", ["", "a b", "x" * 129, "é", "a\u007f"])
def test_a_forged_request_id_is_replaced(forged: str) -> None:
    async def test() -> None:
        async with client(door(answers)) as http:
            answer = await complete(http, headers=[(b"x-request-id", forged.encode())])
        assert answer.headers["x-request-id"] != forged
        assert len(answer.headers["x-request-id"]) == 32

    run(test)


def test_the_limit_of_requests_in_flight() -> None:
    async def test() -> None:
        inner = Slow(stream=False)
        app = door(inner, max_concurrency=2, timeout=1.0)
        async with client(app) as http:
            running = [asyncio.create_task(complete(http)) for _ in range(2)]
            while inner.running < 2:
                await asyncio.sleep(0.01)
            refused = await complete(http)
            assert refused.status_code == 429
            assert refused.headers["retry-after"] == "1"
            assert [answer.status_code for answer in await asyncio.gather(*running)] == [504, 504]
            assert app.slots.used == 0
            assert (await complete(http)).status_code == 504, "the slots are free again"
        rejected = app.metrics.registry.get_sample_value
        assert rejected("kvant_requests_rejected_total", {"reason": "busy"}) == 1
        assert rejected("kvant_requests_rejected_total", {"reason": "timeout"}) == 3
        assert rejected("kvant_inflight_requests") == 0

    run(test)


@pytest.mark.parametrize("stream", [False, True])
def test_a_request_over_its_time_is_aborted_and_told_so(stream: bool) -> None:
    async def test() -> None:
        inner = Slow(stream)
        async with client(door(inner, timeout=0.2)) as http:
            answer = await complete(http)
        assert inner.aborted == 1
        if not stream:
            assert (answer.status_code, answer.json()["error"]["type"]) == (504, "TimeoutError")
        else:
            first, error, done = answer.text.strip().split("\n\n")
            assert first == "data: {}"
            assert json.loads(error.removeprefix("data: "))["error"]["code"] == 504
            assert done == "data: [DONE]"

    run(test)


def test_a_client_that_does_not_read_does_not_keep_the_engine_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "FAREWELL_SECONDS", 0.2)

    async def test() -> None:
        inner, asked = Slow(stream=True), iter([{"type": "http.request", "body": b"{}"}])

        async def receive() -> Any:
            return next(asked, None) or await asyncio.Event().wait()

        async def send(message: Any) -> None:
            if "data" in str(message.get("body")) and inner.running:
                sent.append(message)
            if len(sent) > 1:
                await asyncio.Event().wait()

        sent: list[Any] = []
        app = door(inner, timeout=0.1)
        scope = {"type": "http", "method": "POST", "path": "/v1/completions", "headers": [], "asgi": {}}
        await app(scope, receive, send)
        assert inner.aborted == 1
        assert app.slots.used == 0

    run(test)


def test_draining_lets_requests_finish_and_refuses_new_ones() -> None:
    async def test() -> None:
        release = asyncio.Event()

        async def inner(scope: Any, receive: Any, send: Any) -> None:
            await release.wait()
            await answers(scope, receive, send)

        app = door(inner)
        async with client(app) as http:
            running = asyncio.create_task(complete(http))
            while not app.slots.used:
                await asyncio.sleep(0.01)
            draining = asyncio.create_task(drain(app, Stop(), 20))
            await asyncio.sleep(0.05)
            refused = await complete(http)
            assert refused.status_code == 503
            assert refused.headers["retry-after"]
            ready = await http.get("/ready")
            assert (ready.status_code, ready.json()["status"]) == (503, "draining")
            assert (await http.get("/health")).status_code == 200
            assert not draining.done()
            release.set()
            assert (await running).json() == {"ok": 1}
            assert await draining is True

    run(test)


@pytest.mark.parametrize("insist", [False, True])
def test_what_does_not_finish_is_cut(insist: bool) -> None:
    async def test() -> None:
        inner, stop = Slow(stream=True), Stop()
        app = door(inner)
        async with client(app) as http:
            running = asyncio.create_task(complete(http))
            while not inner.running:
                await asyncio.sleep(0.01)
            draining = asyncio.create_task(drain(app, stop, 60 if insist else 0.2))
            if insist:
                await asyncio.sleep(0.05)
                stop.insisted.set()
            assert await draining is True, "a cut request ends at once"
            answer = await running
        assert inner.aborted == 1
        assert '"code": 503' in answer.text
        assert answer.text.endswith("data: [DONE]\n\n")

    run(test)


def test_keys(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("# ours\nsk-one\n\n  sk-two  \n")

    async def test() -> None:
        async with client(door(answers, Keys.load(file))) as http:
            for header in ("Bearer sk-one", "bearer sk-two"):
                assert (await complete(http, headers={"authorization": header})).status_code == 200
            for header in ("", "sk-one", "Basic sk-one", "Bearer", "Bearer # ours", "Bearer sk-three"):
                refused = await complete(http, headers={"authorization": header} if header else {})
                assert refused.status_code == 401
                assert refused.headers["www-authenticate"] == "Bearer"
            for path, status in (("/health", 200), ("/ready", 200), ("/metrics", 401), ("/v1/models", 401)):
                assert (await http.get(path)).status_code == status

    run(test)
    assert "sk-one" not in repr(Keys.load(file))


async def too_much() -> AsyncIterator[bytes]:
    for _ in range(MAX_BYTES // (1 << 20) + 1):
        yield b" " * (1 << 20)


@pytest.mark.parametrize("declared", [True, False])
def test_a_large_body_is_refused_whether_its_length_is_told_or_not(declared: bool) -> None:
    async def test() -> None:
        async with client(door(answers)) as http:
            content = b" " * (MAX_BYTES + 1) if declared else too_much()
            answer = await complete(http, json=None, content=content)
        assert answer.status_code == 413
        assert answer.headers["connection"] == "close"

    run(test)


ERRORS = [
    (b'{"error": {"message": "' + b"no " * 99_999 + b'", "type": "BadRequestError", "param": "p"}}', 400),
    (b'{"detail": "Not Found"}', 404),
    (b"<html>" + b"x" * 100_000, 400),
    (b"[1]", 422),
    (b'{"error": {"message": "' + "\\u0000€".encode() * 5000 + b'"}}', 400),
]


@pytest.mark.parametrize(("body", "status"), ERRORS)
def test_every_error_of_the_engine_comes_short_and_in_the_envelope(body: bytes, status: int) -> None:
    async def inner(scope: Any, receive: Any, send: Any) -> None:
        await answers(scope, receive, send, status, body)

    async def test() -> None:
        async with client(door(inner)) as http:
            answer = await complete(http)
        assert answer.status_code == status
        assert len(answer.content) < 8192
        assert set(answer.json()["error"]) == {"message", "type", "param", "code"}

    run(test)


def test_an_internal_error_names_the_request_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    async def raises(scope: Any, receive: Any, send: Any) -> None:
        raise RuntimeError((await receive())["body"])

    async def speaks(scope: Any, receive: Any, send: Any) -> None:
        await answers(scope, receive, send, 500, b'{"error": {"message": "the prompt was: secret"}}')

    async def test() -> None:
        for inner in (raises, speaks):
            async with client(door(inner)) as http:
                answer = await complete(http, json={"prompt": "secret"}, headers={"x-request-id": "r-1"})
            assert answer.status_code == 500
            assert "r-1" in answer.json()["error"]["message"]
            assert "secret" not in answer.text

    run(test)
    assert "RuntimeError" in caplog.text
    assert "secret" not in caplog.text


def test_refusals_have_their_headers() -> None:
    assert envelope.unavailable("draining", "x").headers() == {"Retry-After": "5", "Connection": "close"}
    assert envelope.busy(3).headers() == {"Retry-After": "1"}
    assert len(json.dumps(envelope.bad_request("x" * 10**6).body())) < 8192
