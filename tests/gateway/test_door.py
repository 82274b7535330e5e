"""Who comes in, with what, and what the others hear."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.responses import PlainTextResponse

from kvant.gateway.audit.verify import verify
from kvant.gateway.keys.file import changing
from kvant.gateway.keys.key import Key, made
from kvant.gateway.keys.ring import Keyring
from tests.gateway.engine import Engine
from tests.gateway.proxy.test_calls import Seen, wait_until
from tests.gateway.running import HELLO, Running, settings


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine() as one:
        yield one


def stored(path: Path, *keys: Key) -> Path:
    with changing(path) as write:
        write(Keyring(keys))
    return path


def bearer(text: str) -> dict[str, dict[str, str]]:
    return {"headers": {"Authorization": f"Bearer {text}"}}


def test_a_key_opens_what_its_scopes_say(engine: Engine, tmp_path: Path) -> None:
    user, user_text = made("user", ("generate",), 0.0)
    watch, watch_text = made("watch", ("metrics",), 0.0)
    admin, admin_text = made("admin", ("admin",), 0.0)
    file = stored(tmp_path / "keys.json", user, watch, admin)
    with Running(
        settings([engine], security={"key_file": file}),
        lambda g: g.mount("/admin", PlainTextResponse("in")),  # type: ignore[arg-type]
    ) as gateway:
        found = {
            path: [
                httpx.request(method, gateway.url + path, json=body, **bearer(text)).status_code
                for text in ("none", user_text, watch_text, admin_text)
            ]
            for method, path, body in (
                ("POST", "/v1/chat/completions", {"model": "stub", "messages": HELLO}),
                ("GET", "/v1/models", None),
                ("GET", "/metrics", None),
                ("GET", "/admin/arms", None),
                ("GET", "/health", None),
                ("GET", "/nothing", None),
            )
        }
        refused = gateway.post({"messages": HELLO})
        assert "kvant_" not in refused.text
    assert found == {
        "/v1/chat/completions": [401, 200, 403, 403],
        "/v1/models": [401, 200, 403, 403],
        "/metrics": [401, 403, 200, 403],
        "/admin/arms": [401, 403, 403, 200],
        "/health": [200] * 4,
        "/nothing": [404] * 4,
    }
    assert refused.headers["www-authenticate"] == "Bearer"


def test_only_listed_addresses(engine: Engine) -> None:
    with Running(settings([engine], security={"allow": ["192.0.2.0/24"]})) as gateway:
        headers = {"X-Forwarded-For": "192.0.2.1"}
        assert gateway.post({"messages": HELLO}, headers=headers).status_code == 403
        assert httpx.get(gateway.url + "/ready").status_code == 200
    assert engine.requests == []


def test_limits_are_named_before_any_work(engine: Engine) -> None:
    limits = {"body_bytes": 2048, "prompt_characters": 100, "answer_tokens": 10}
    with Running(settings([engine], limits=limits)) as gateway:
        long = gateway.post({"messages": [{"role": "user", "content": "x" * 101}]})
        large = gateway.post({"messages": [{"role": "user", "content": "x" * 3000}]})
        many = gateway.post({"messages": HELLO, "max_tokens": 11})
        assert (long.status_code, large.status_code, many.status_code) == (400, 413, 400)
        assert "over the limit of 100" in long.json()["error"]["message"]
        assert many.json()["error"]["param"] == "max_tokens"
        assert engine.requests == []
        assert gateway.post({"messages": HELLO}).json()["usage"]["completion_tokens"] == 10


def test_what_is_left_is_told_and_a_limit_says_when(engine: Engine) -> None:
    with Running(
        settings([engine], limits={"requests_per_minute": 2, "tokens_per_minute": 10_000})
    ) as gateway:
        first = gateway.post({"messages": HELLO, "max_tokens": 5})
        second = gateway.post({"messages": HELLO, "max_tokens": 5})
        third = gateway.post({"messages": HELLO, "max_tokens": 5})
    assert first.headers["x-ratelimit-limit-requests"] == "2"
    assert [one.headers["x-ratelimit-remaining-requests"] for one in (first, second)] == ["1", "0"]
    assert int(second.headers["x-ratelimit-remaining-tokens"]) > 9_900
    assert third.status_code == 429
    assert third.headers["x-ratelimit-remaining-requests"] == "0"
    assert 25 <= int(third.headers["retry-after"]) <= 30


def test_the_gateway_decides_what_the_engine_sees(engine: Engine, tmp_path: Path) -> None:
    one, one_text = made("one", ("generate",), 0.0)
    other, other_text = made("other", ("generate",), 0.0)
    file = stored(tmp_path / "keys.json", one, other)
    trace = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
    with Running(settings([engine], security={"key_file": file})) as gateway:
        asked = {"messages": HELLO, "cache_salt": "mine", "priority": -5}
        for text in (one_text, one_text, other_text):
            headers = {**bearer(text)["headers"], "x-request-id": "my-id", "traceparent": trace}
            answer = gateway.post(asked, headers=headers)
            assert answer.headers["x-request-id"] == "my-id"
    bodies = [request["body"] for request in engine.requests]
    salts = [body["cache_salt"] for body in bodies]
    assert salts[0] == salts[1] != salts[2]
    assert "mine" not in salts
    assert {body["priority"] for body in bodies} == {0}
    headers = [request["headers"] for request in engine.requests]
    assert len({one["x-request-id"] for one in headers}) == 3
    assert all("authorization" not in one for one in headers)
    for sent in headers:
        version, trace_id, span, flags = sent["traceparent"].split("-")
        assert (version, trace_id, flags) == ("00", "a" * 32, "01")
        assert span != "b" * 16


def test_batch_waits_for_interactive(engine: Engine) -> None:
    engine.per_token = 0.02
    seen = Seen()
    scheduling = {"max_concurrency": 1, "min_concurrency": 1}
    with Running(
        settings([engine], scheduling=scheduling), lambda g: g.cast.watchers.append(seen)
    ) as gateway:

        async def all_at_once() -> None:
            async with httpx.AsyncClient(timeout=20) as client:
                tasks = []
                for name, priority in (("a", "batch"), ("b", "batch"), ("c", "interactive")):
                    tasks.append(
                        asyncio.ensure_future(
                            client.post(
                                gateway.url + "/v1/chat/completions",
                                json={"model": "stub", "messages": HELLO, "user": name, "max_tokens": 4},
                                headers={"x-request-priority": priority},
                            )
                        )
                    )
                    await asyncio.sleep(0.03)
                await asyncio.gather(*tasks)

        asyncio.run(all_at_once())
        assert gateway.post({"messages": HELLO}, headers={"x-request-priority": "now"}).status_code == 400
    assert [one.call.body["user"] for one in seen.served] == ["a", "c", "b"]
    assert [one.call.priority for one in seen.served] == ["batch", "interactive", "batch"]


def test_draining_refuses_new_calls_and_lets_running_ones_finish(engine: Engine) -> None:
    engine.per_token = 0.05
    with Running(settings([engine])) as gateway:
        with gateway.client().chat.completions.create(
            model="stub", messages=HELLO, stream=True, max_tokens=10
        ) as stream:
            next(iter(stream))
            drained = asyncio.run_coroutine_threadsafe(
                gateway.gateway.door.drain(5.0, asyncio.Event()), gateway.loop
            )
            wait_until(lambda: httpx.get(gateway.url + "/ready").status_code == 503)
            refused = gateway.post({"messages": HELLO})
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
            assert httpx.get(gateway.url + "/health").status_code == 200
            assert sum(1 for chunk in stream if chunk.choices[0].delta.content) >= 9
        drained.result(5)


def test_a_row_for_every_request_and_no_word_of_a_prompt(engine: Engine, tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    with Running(settings([engine], audit={"file": log})) as gateway:
        gateway.post({"messages": HELLO}, headers={"x-request-id": "mine"})
        gateway.post({"messages": HELLO, "fault": "500"})
        httpx.get(gateway.url + "/v1/evil%22%0A%7B%22x%22:1%7D")
        httpx.post(gateway.url + "/v1/chat/completions", content=b"{")
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(row["status"], row["outcome"]) for row in rows] == [
        (200, "ok"),
        (500, "arm"),
        (404, "not_found"),
        (400, "malformed"),
    ]
    assert rows[0]["client_id"] == "mine"
    assert (rows[0]["prompt_tokens"], rows[0]["tokens"]) == (2, 16)
    assert len({row["id"] for row in rows}) == 4
    assert "hello" not in log.read_text()
    assert verify(log).wrong == ""


def test_prompts_are_written_only_where_asked_for(engine: Engine, tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    with Running(settings([engine], audit={"file": log, "prompts": True})) as gateway:
        text = gateway.post({"messages": HELLO}).json()["choices"][0]["message"]["content"]
    row = json.loads(log.read_text())
    assert (row["prompt"], row["text"]) == ("hello there", text)


def test_metrics_say_how_calls_went(engine: Engine) -> None:
    engine.kv_usage = 0.25
    with Running(settings([engine], scheduling={"poll_seconds": 0.05})) as gateway:
        gateway.post({"messages": HELLO, "stream": True})
        gateway.post({"messages": HELLO, "fault": "500"})
        httpx.get(gateway.url + "/nothing")
        wait_until(
            lambda: (
                'kvant_gateway_kv_usage_ratio{arm="baseline"} 0.25'
                in httpx.get(gateway.url + "/metrics").text
            )
        )
        text = httpx.get(gateway.url + "/metrics").text
    for line in (
        'kvant_gateway_requests_total{arm="baseline",outcome="ok"} 1.0',
        'kvant_gateway_requests_total{arm="baseline",outcome="arm"} 1.0',
        'kvant_gateway_requests_rejected_total{reason="not_found"} 1.0',
        'kvant_gateway_tokens_total{arm="baseline",kind="answer"} 16.0',
        'kvant_gateway_first_token_seconds_count{arm="baseline"} 1.0',
        'kvant_gateway_token_seconds_count{arm="baseline"} 15.0',
        'kvant_gateway_replicas_up{arm="baseline"} 1.0',
        "kvant_gateway_ready 1.0",
    ):
        assert line in text


def test_a_slow_client_and_a_half_open_connection_hold_nobody_up(engine: Engine) -> None:
    engine.per_token = 0.0
    seen = Seen()
    with Running(
        settings([engine], timeouts={"client": 0.5}), lambda g: g.cast.watchers.append(seen)
    ) as gateway:
        body = json.dumps(
            {"model": "stub", "messages": HELLO, "stream": True, "max_tokens": 4000, "fault": "wide"}
        ).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        deaf = socket.socket()
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.connect(("127.0.0.1", gateway.port))
        deaf.sendall(head.encode() + body)
        silent = socket.create_connection(("127.0.0.1", gateway.port))
        silent.sendall(b"POST /v1/chat/comple")
        began = time.monotonic()
        assert gateway.post({"messages": HELLO, "max_tokens": 2}).status_code == 200
        assert time.monotonic() - began < 2
        wait_until(lambda: any(one.error == "client" for one in seen.served), 60)
        wait_until(lambda: engine.running == 0)
        deaf.close()
        silent.close()


def test_the_asker_asks_without_being_traffic(engine: Engine) -> None:
    from kvant.errors import EngineError

    seen = Seen()
    with Running(settings([engine]), lambda g: g.cast.watchers.append(seen)) as gateway:
        asker = gateway.gateway.asker
        body: dict[str, Any] = {
            "model": "stub",
            "prompt": "hello there",
            "max_tokens": 1,
            "prompt_logprobs": 1,
        }
        answer = gateway.call(asker.ask("baseline", "/v1/completions", body, seconds=5))
        assert len(answer["choices"][0]["prompt_logprobs"]) == 2
        with pytest.raises(EngineError, match="status 500") as caught:
            gateway.call(asker.ask("baseline", "/v1/completions", {**body, "fault": "500"}, seconds=5))
        assert "hello" not in str(caught.value)
        with pytest.raises(EngineError, match=r"in 0\.1 s"):
            gateway.call(asker.ask("baseline", "/v1/completions", {**body, "fault": "silent"}, seconds=0.1))
        assert 0 <= asker.load("baseline") < 0.5
        assert 'requests_total{arm="baseline"' not in httpx.get(gateway.url + "/metrics").text
    assert seen.served == []


def test_a_failure_of_ours_says_nothing_of_the_request(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    async def failing(scope: Any, receive: Any, send: Any) -> None:
        raise RuntimeError(f"the request is {scope}")

    with Running(settings([engine]), lambda g: g.mount("/admin", failing)) as gateway:
        answer = httpx.get(gateway.url + "/admin/x", headers={"x-prompt": "canary"})
        assert gateway.post({"messages": HELLO}).is_success
    assert answer.status_code == 500
    assert answer.json()["error"]["message"].endswith(answer.headers["x-request-id"])
    assert "RuntimeError" in caplog.text
    assert "canary" not in answer.text + caplog.text
