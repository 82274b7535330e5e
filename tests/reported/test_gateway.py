"""Reported failures of gateways: leaked slots, wrong bills, endless series, logged prompts, shared salts."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from kvant.gateway.keys.file import changing
from kvant.gateway.keys.key import made
from kvant.gateway.keys.ring import Keyring
from tests.gateway.engine import MODEL, Engine
from tests.gateway.proxy.test_calls import wait_until
from tests.gateway.running import HELLO, Running, settings

PARALLEL = 2
EACH = 50


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine() as one:
        yield one


@pytest.fixture
def key(tmp_path: Path) -> tuple[Path, str]:
    """A file with one key, and its text."""
    one, text = made("", ("generate", "metrics"), 0.0, concurrency=PARALLEL, requests_per_minute=10_000)
    with changing(tmp_path / "keys.json") as write:
        write(Keyring([one]))
    return tmp_path / "keys.json", text


def rows(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


# A stream that is left alone leaves generators of the client's library to the collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("how", ["cancelled", "timeout", "502"])
def test_h5_50_no_slot_leaks_however_a_stream_ends(engine: Engine, key: tuple[Path, str], how: str) -> None:
    file, text = key
    engine.per_token = 0.02
    fault = {"cancelled": "", "timeout": "silent", "502": "502"}[how]
    made_settings = settings([engine], security={"key_file": file}, timeouts={"first_token": 0.03})

    async def one(client: openai.AsyncOpenAI) -> None:
        with contextlib.suppress(openai.APIError, StopAsyncIteration):
            stream = await client.chat.completions.create(
                model=MODEL, messages=HELLO, stream=True, max_tokens=50, extra_body={"fault": fault}
            )
            await stream.__anext__()
            await stream.close()

    async def all_of_them(gateway: Running) -> None:
        async with openai.AsyncOpenAI(base_url=gateway.url + "/v1", api_key=text, max_retries=0) as client:
            for _ in range(EACH // PARALLEL):
                await asyncio.gather(*(one(client) for _ in range(PARALLEL)))
                # The gateway learns a moment later that its client has left.
                while gateway.gateway.door.quotas.used:
                    await asyncio.sleep(0.002)

    with Running(made_settings) as gateway:
        asyncio.run(asyncio.wait_for(all_of_them(gateway), 60))
        assert gateway.gateway.door.quotas.used == 0
        assert gateway.post({"messages": HELLO}, headers={"Authorization": f"Bearer {text}"}).is_success
        wait_until(lambda: engine.running == 0)


def test_h5_50_a_refused_request_uses_up_no_quota(engine: Engine, key: tuple[Path, str]) -> None:
    file, text = key
    engine.per_token = 0.1
    headers = {"Authorization": f"Bearer {text}"}
    with Running(settings([engine], security={"key_file": file})) as gateway:
        client = gateway.client(text)
        streams = [
            client.chat.completions.create(model=MODEL, messages=HELLO, stream=True, max_tokens=1000)
            for _ in range(PARALLEL)
        ]
        refused = [gateway.post({"messages": HELLO}, headers=headers) for _ in range(5)]
        assert {one.status_code for one in refused} == {429}
        for stream in streams:
            stream.close()
        wait_until(lambda: gateway.gateway.door.quotas.used == 0)
        after = gateway.post({"messages": HELLO, "max_tokens": 1}, headers=headers)
    assert int(after.headers["x-ratelimit-remaining-requests"]) >= 10_000 - PARALLEL - 1


@pytest.mark.parametrize("stop_after", [0, 1, 40, 119])
def test_h5_52_a_cancelled_stream_is_billed_what_the_engine_wrote(
    engine: Engine, tmp_path: Path, stop_after: int
) -> None:
    log = tmp_path / "audit.jsonl"
    engine.first = engine.per_token = 0.02
    with Running(settings([engine], audit={"file": log})) as gateway:
        with gateway.client().chat.completions.create(
            model=MODEL, messages=HELLO, stream=True, max_tokens=120
        ) as stream:
            seen = 0
            for chunk in stream:
                seen += bool(chunk.choices and chunk.choices[0].delta.content)
                if seen >= stop_after:
                    break
        wait_until(lambda: log.exists() and log.stat().st_size > 0)
    (row,) = rows(log)
    # The last one may have come before the client had left.
    assert row["outcome"] == ("ok" if row["tokens"] == 120 else "cancelled")
    # The engine goes on until it learns that it should stop: a fifth of a second at the most.
    assert stop_after <= row["tokens"] <= engine.produced.get(row["id"], 0) <= row["tokens"] + 10


def test_h5_52_a_zero_stays_a_zero_and_a_failover_is_one_row(engine: Engine, tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    with (
        Engine(fault="503") as bad,
        Running(settings([bad, engine], audit={"file": log})) as gateway,
    ):
        for stream in (False, True):
            for _ in range(3):
                assert gateway.post({"messages": HELLO, "stream": stream}).is_success
            engine.fault = "zero"
            assert gateway.post({"messages": HELLO, "stream": stream}).is_success
            engine.fault = ""
        gateway.post({"messages": HELLO, "stream": True, "fault": "cut"})
    found = rows(log)
    assert [row["tokens"] for row in found] == [16, 16, 16, 0] * 2 + [8]
    assert len({row["id"] for row in found}) == 9
    assert found[-1]["outcome"] == "broken"


def test_h5_59_whatever_is_asked_for_series_stay_few(engine: Engine) -> None:
    with Running(settings([engine])) as gateway:

        async def scan(count: int) -> None:
            async with httpx.AsyncClient(base_url=gateway.url) as client:
                for number in range(count):
                    noise = f"{secrets.token_hex(8)}-é{number}"
                    await client.get(f"/v1/{noise}")
                    if number % 10 == 0:
                        body = {"model": noise, "user": noise, "messages": HELLO, "max_tokens": 1}
                        headers = {"x-tenant": noise.encode().hex(), "x-request-id": noise.encode().hex()}
                        await client.post("/v1/chat/completions", json=body, headers=headers)

        asyncio.run(scan(100))
        few = httpx.get(gateway.url + "/metrics").text
        asyncio.run(scan(300))
        many = httpx.get(gateway.url + "/metrics").text
    assert len(few.splitlines()) == len(many.splitlines()) < 200
    assert 'kvant_gateway_requests_rejected_total{reason="not_found"} 400.0' in many
    assert 'requests_total{arm="baseline",outcome="ok"} 40.0' in many


def test_h5_61_a_prompt_is_nowhere_but_on_its_way(
    engine: Engine, key: tuple[Path, str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file, text = key
    caplog.set_level(logging.DEBUG)
    log, canary = tmp_path / "audit.jsonl", f"canary{secrets.token_hex(8)}"
    headers = {"Authorization": f"Bearer {text}", "x-secret": canary, "x-session-id": canary}
    messages = [{"role": "system", "content": canary}, {"role": "user", "content": f"tell {canary}"}]
    tools = [{"type": "function", "function": {"name": canary, "parameters": {}}}]

    class Failing:
        """A role that raises with the prompt in its message."""

        def fail(self, call: Any, *rest: Any) -> Any:
            raise RuntimeError(f"{call}{call.body}")

        choose = began = ended = watch = refuge = fail

    def plug(gateway: Any) -> None:
        gateway.cast.router = gateway.cast.guard = Failing()
        gateway.cast.watchers.append(Failing())

    with Running(
        settings(
            [engine],
            security={"key_file": file},
            audit={"file": log},
            timeouts={"first_token": 0.1, "between_tokens": 0.1, "total": 1.0},
        ),
        plug,
    ) as gateway:
        for fault in ("", "echo", "500", "502", "cut", "broken", "silent", "stall"):
            for stream in (True, False):
                if fault == "silent" and not stream:
                    continue
                gateway.post(
                    {"messages": messages, "tools": tools, "user": canary, "stream": stream, "fault": fault},
                    headers=headers,
                )
        httpx.post(gateway.url + f"/v1/{canary}?q={canary}", headers=headers)
        httpx.post(gateway.url + "/v1/chat/completions", content=f"{{{canary}", headers=headers)
        metrics = httpx.get(gateway.url + "/metrics", headers=headers).text
    assert engine.requests, "nothing was asked"
    # The clients of this test log what they ask for; that is not the gateway's doing.
    clients = ("httpx", "httpcore", "openai")
    logged = "\n".join(
        f"{one.getMessage()} {one.exc_text}" for one in caplog.records if not one.name.startswith(clients)
    )
    written = {"log": logged, "audit": log.read_text(), "metrics": metrics, "keys": file.read_text()}
    assert all(written.values())
    secret = text.rpartition("_")[2]
    own_path = f"/v1/{canary}"  # a path is logged, as every server does; what stands behind its ? is not
    for place, content in written.items():
        assert canary not in content.replace(own_path, ""), place
        assert secret not in content, place


def test_h5_63_salts_come_from_the_key_and_from_nothing_else(engine: Engine, tmp_path: Path) -> None:
    made_keys = [made(name, ("generate",), 0.0) for name in ("x", "y")]
    with changing(tmp_path / "keys.json") as write:
        write(Keyring(key for key, _ in made_keys))
    with Running(settings([engine], security={"key_file": tmp_path / "keys.json"})) as gateway:

        def salt(tenant: int, **body: Any) -> str:
            headers = {"Authorization": f"Bearer {made_keys[tenant][1]}"}
            assert gateway.post({"messages": HELLO, **body}, headers=headers).is_success
            return str(engine.requests[-1]["body"]["cache_salt"])

        first, second = salt(0), salt(1)
        assert first != second
        assert salt(0) == salt(0, model="adapter-x") == first  # the same tenant still hits its own
        for stolen in (first, "x", "", None, 7):
            assert salt(1, cache_salt=stolen) == second
        ids = {key.id for key, _ in made_keys}
        assert not ids & {first, second}
    with Running(settings([engine])) as gateway:
        assert gateway.post({"messages": HELLO, "cache_salt": first}).is_success
        assert "cache_salt" not in engine.requests[-1]["body"]
