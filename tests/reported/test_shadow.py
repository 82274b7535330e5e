"""Reported failure H5-56: copies of calls are retried, billed, waited for, or lost without a count."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from kvant.gateway.answers.finished import Answer
from kvant.gateway.answers.join import Later
from kvant.gateway.answers.settings import Shadow as Settings
from kvant.gateway.answers.shadow import Shadow
from kvant.gateway.app import Gateway
from kvant.gateway.arms.replica import Replica
from kvant.gateway.call import Call, Served
from tests.gateway.engine import MODEL, Engine
from tests.gateway.running import HELLO, Running, settings

ALL = Settings(share=1.0, max_bytes=2_000_000, tokens_per_minute=1_000_000)
CHAT = "/v1/chat/completions"
SECRET = "sk-of-the-candidate"
DOWN = "http://127.0.0.1:9"


@dataclass
class Under:
    """A gateway that copies every call, and what its roles saw."""

    baseline: Engine
    candidate: str
    settings: Settings | None = ALL
    pairs: list[tuple[Served, Answer | None]] = field(default_factory=list)
    served: list[Served] = field(default_factory=list)

    def __enter__(self) -> Under:
        candidate: Any = SimpleNamespace(url=self.candidate)
        self.running = Running(settings([self.baseline], [candidate]), self._plug).__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        if self.settings:
            self.running.call(self.shadow.close())
        self.running.__exit__(*raised)

    def _plug(self, gateway: Gateway) -> None:
        gateway.cast.watchers.append(self)
        if self.settings:
            self.shadow = Shadow(
                self.settings, Later(gateway), time.monotonic, lambda *p: self.pairs.append(p)
            )
            gateway.cast.watchers.append(self.shadow)

    @property
    def replica(self) -> Replica:
        return self.running.gateway.arms["candidate"].replicas[0]

    def began(self, call: Call, arm: str) -> None:
        pass

    def ended(self, served: Served) -> None:
        self.served.append(served)

    def bytes(self, body: dict[str, Any], **asked: Any) -> tuple[int, str]:
        """Status and all bytes that the client gets, but for the request's own id."""
        answer = self.running.post(body, verify=False, **asked)
        return answer.status_code, answer.text.replace(answer.headers["x-request-id"], "ID")


def until(true: Callable[[], object], seconds: float = 5.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "never came"
        time.sleep(0.005)


@pytest.fixture(scope="module")
def baseline() -> Iterator[Engine]:
    with Engine(per_token=0.0, first=0.0) as engine:
        yield engine


@pytest.fixture(scope="module")
def without(baseline: Engine) -> Iterator[Under]:
    with Under(baseline, DOWN, None) as under:
        yield under


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine(per_token=0.0, first=0.0) as engine:
        yield engine


@pytest.fixture(scope="module")
def copying(baseline: Engine, engine: Engine) -> Iterator[Under]:
    with Under(baseline, engine.url) as under:
        yield under


@pytest.fixture
def candidate(engine: Engine) -> Engine:
    engine.first, engine.fault, engine.writes, engine.kv_usage = 0.0, "", "", 0.0
    engine.requests.clear()
    return engine


@pytest.fixture
def under(copying: Under, candidate: Engine) -> Under:
    """A gateway that copies every call, as good as new."""
    copying.running.call(copying.shadow.close())
    copying.pairs.clear()
    copying.served.clear()
    for counts in (copying.shadow.skipped, copying.shadow.ended_as):
        counts.update({name: -n for name, n in counts.items()})
    copying.replica.url, copying.replica.kv, copying.replica.down_until = candidate.url, 0.0, 0.0
    return copying


@contextmanager
def closing() -> Iterator[tuple[str, list[str]]]:
    """A candidate that never answers: its URL, and a word for each connection that asked, and that closed."""
    seen: list[str] = []
    loop = asyncio.new_event_loop()

    async def met(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        seen.append("asked")
        while await reader.read(65536):
            pass
        seen.append("closed")
        writer.close()

    server = loop.run_until_complete(asyncio.start_server(met, "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", seen
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    server.close()
    loop.run_until_complete(server.wait_closed())
    loop.close()


def body(characters: int, **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": "x" * characters}], "max_tokens": 6, **more}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("candidate_is", ["well", "slow", "500", "503", "silent", "secret", "down"])
def test_h5_56_the_client_sees_no_shadow(
    baseline: Engine, candidate: Engine, without: Under, under: Under, candidate_is: str, stream: bool
) -> None:
    if candidate_is == "slow":
        candidate.first = 10.0
    elif candidate_is == "secret":
        candidate.writes = SECRET
    elif candidate_is == "down":
        under.replica.url = DOWN
    elif candidate_is != "well":
        candidate.fault = candidate_is
    asked = body(1000, stream=stream)
    expected = without.bytes(asked)
    seen = len(baseline.requests)
    assert under.bytes(asked) == expected
    until(lambda: under.served)
    if candidate_is in ("slow", "silent"):
        until(lambda: candidate.requests)
        assert under.shadow.ended_as.total() == 0, "the client did not wait for the copy"
    else:
        # One that is known to be down is not sent a copy.
        until(lambda: under.shadow.ended_as.total() or under.shadow.skipped["load"])
    assert len(baseline.requests) == seen + 1
    assert len(candidate.requests) == (candidate_is != "down"), "sent once, whatever became of it"
    assert [one.arm for one in under.served] == ["baseline"], "not billed: no call but the client's ended"
    if candidate_is == "500" or (candidate_is == "down" and under.shadow.ended_as.total()):
        assert under.shadow.ended_as["failed"] == 1
        assert under.pairs[0][1] is None
    if candidate_is == "503":
        assert under.shadow.ended_as["shed"] == 1
        assert not under.pairs, "an arm without room for a copy is not judged by it"
    if candidate_is == "secret":
        assert SECRET not in expected[1]
        assert under.pairs[0][1] == Answer(SECRET, "stop", 1, used=2)


@pytest.mark.parametrize(
    ("characters", "copied"), [(1_000, True), (900_000, True), (1_200_000, True), (5_000_000, False)]
)
def test_h5_56_large_bodies_are_copied_or_counted(
    candidate: Engine, without: Under, under: Under, characters: int, copied: bool
) -> None:
    asked = body(characters)
    assert under.bytes(asked) == without.bytes(asked)
    if copied:
        until(lambda: under.pairs)
        assert candidate.requests[0]["body"]["messages"] == asked["messages"]
    assert under.shadow.skipped["size"] == (not copied)
    assert len(candidate.requests) == copied


def test_h5_56_a_copy_acts_on_nothing_and_is_kept_nowhere(candidate: Engine, under: Under) -> None:
    function = {"type": "function", "function": {"name": "f", "parameters": {}}}
    asked = body(
        60, stream=True, stream_options={"include_usage": True}, n=1, store=True, metadata={"customer": "7"},
        user="u-7", safety_identifier="s-7", prompt_cache_key="k-7", service_tier="priority", priority=0,
        tools=[function], temperature=0.5, seed=3,
    )  # fmt: skip
    under.bytes(asked, headers={"authorization": "Bearer of-the-client", "x-session-id": "s"})
    until(lambda: candidate.requests)
    (sent,) = candidate.requests
    assert set(sent["body"]) == {
        "model",
        "messages",
        "max_tokens",
        "tools",
        "temperature",
        "seed",
        "stream",
    }
    assert sent["body"]["stream"] is False
    assert sent["headers"]["x-request-priority"] == "batch"
    assert "client" not in str(sent["headers"])
    for tools in ([{"type": "web_search"}], [function, {"type": "mcp", "server_url": "https://x"}]):
        under.bytes(body(60, tools=tools))
    under.bytes(body(60, web_search_options={}, tools=[{"type": "code_interpreter"}]))
    assert under.shadow.skipped["tools"] == 3
    assert len(candidate.requests) == 1


def test_h5_56_a_client_that_leaves_ends_its_copy() -> None:
    asked = body(60, stream=True) | {"model": MODEL, "max_tokens": 400}
    with Engine(per_token=0.05) as slow, closing() as (url, seen), Under(slow, url) as under:
        with httpx.stream("POST", under.running.url + CHAT, json=asked) as answer:
            next(answer.iter_bytes())
            until(lambda: seen)
        until(lambda: "closed" in seen)
        assert under.shadow.ended_as["left"] == 1
        assert under.pairs == []


def test_h5_56_copies_go_first_when_load_comes_up(candidate: Engine, under: Under) -> None:
    candidate.first = 10.0
    under.bytes(body(60))
    until(lambda: candidate.requests)
    candidate.kv_usage = 0.95
    until(lambda: under.running.gateway.asker.load("candidate") > 0.9)
    under.bytes(body(60))
    assert under.shadow.skipped["load"] == 1
    live = Call("live", CHAT, {}, "", "")
    under.running.loop.call_soon_threadsafe(under.shadow.began, live, "candidate")
    until(lambda: under.shadow.ended_as["shed"])


@pytest.mark.parametrize(
    ("bounds", "reason"), [({"in_flight": 2}, "in_flight"), ({"tokens_per_minute": 2_500}, "tokens")]
)
def test_h5_56_every_call_that_is_not_copied_is_counted(
    baseline: Engine, candidate: Engine, bounds: dict[str, int], reason: str
) -> None:
    """A copy is thought to take its prompt and 1,024 tokens until it has said how many it took."""
    candidate.first = 10.0
    with Under(baseline, candidate.url, Settings(share=1.0, **bounds)) as under:
        under.running.post({"prompt": ["a", "b"], "max_tokens": 1}, "/v1/completions")
        for _ in range(5):
            under.bytes(body(60, max_tokens=8_000))
        until(lambda: len(candidate.requests) == 2)
        skipped = {reason: n for reason, n in under.shadow.skipped.items() if n}
        assert skipped == {"kind": 1, reason: 3}


def test_h5_56_what_was_not_drawn_is_counted_too(baseline: Engine, candidate: Engine) -> None:
    with Under(baseline, candidate.url, Settings(share=0.0)) as under:
        for _ in range(5):
            under.running.post({"messages": HELLO})
        assert under.shadow.skipped["sample"] == 5
        assert candidate.requests == []
