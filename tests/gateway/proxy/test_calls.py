"""Calls through the gateway, with the client people use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest

from kvant.gateway.call import Call, Served
from tests.gateway.engine import MODEL, Engine
from tests.gateway.running import HELLO, Running, settings


class Seen:
    """A watcher that remembers."""

    def __init__(self) -> None:
        self.calls: list[tuple[Call, str]] = []
        self.served: list[Served] = []

    def began(self, call: Call, arm: str) -> None:
        self.calls.append((call, arm))

    def ended(self, served: Served) -> None:
        self.served.append(served)


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine() as one:
        yield one


def test_a_stream_passes_unchanged_and_is_counted(engine: Engine) -> None:
    seen = Seen()
    with Running(settings([engine]), lambda g: g.cast.watchers.append(seen)) as gateway:
        asked: dict[str, Any] = {"messages": HELLO, "stream": True, "max_tokens": 5}
        through = gateway.post(asked)
        usual = httpx.post(engine.url + "/v1/chat/completions", json={"model": MODEL, **asked})
        own = engine.requests[0]["headers"]["x-request-id"]
        assert through.text == usual.text.replace("chatcmpl-none", f"chatcmpl-{own}")
        client = gateway.client()
        chunks = list(
            client.chat.completions.create(
                model=MODEL,
                messages=HELLO,
                stream=True,
                max_tokens=5,
                stream_options={"include_usage": True},
            )
        )
        assert chunks[-1].usage.completion_tokens == 5
    first, second = seen.served
    assert (first.status, first.arm, first.tokens, first.prompt_tokens) == (200, "baseline", 5, 2)
    assert first.first is not None
    assert len(first.gaps) == 4
    assert first.text == second.text == "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)


def test_an_answer_in_one_piece(engine: Engine) -> None:
    seen = Seen()
    with Running(settings([engine]), lambda g: g.cast.watchers.append(seen)) as gateway:
        answer = gateway.client().completions.create(model=MODEL, prompt="once upon", max_tokens=4)
        assert [one.id for one in gateway.client().models.list()] == [MODEL]
    assert answer.usage.completion_tokens == 4
    assert seen.served[0].text == answer.choices[0].text
    assert seen.served[0].finish == "length"


def test_the_router_decides_and_a_broken_role_breaks_nothing(engine: Engine) -> None:
    class Broken:
        def choose(self, call: Call) -> str:
            raise RuntimeError("secret")

        began = ended = watch = choose

    class Candidate:
        def choose(self, call: Call) -> str:
            return "candidate"

    with Engine(name="other") as other:

        def plug(gateway: Any) -> None:
            gateway.cast.router = Candidate()

        with Running(settings([engine], [other]), plug) as gateway:
            assert gateway.post({"messages": HELLO}).json()["model"] == "other"
            gateway.gateway.cast.router = gateway.gateway.cast.guard = Broken()
            gateway.gateway.cast.watchers.append(Broken())
            assert gateway.post({"messages": HELLO}).json()["model"] == MODEL


@pytest.mark.parametrize("fault", ["500", "502", "503", "echo"])
def test_an_engines_error_comes_in_openais_envelope(engine: Engine, fault: str) -> None:
    with Running(settings([engine])) as gateway, pytest.raises(openai.APIStatusError) as caught:
        gateway.client().chat.completions.create(model=MODEL, messages=HELLO, extra_body={"fault": fault})
    assert caught.value.status_code == {"502": 500, "echo": 400}.get(
        fault, int(fault) if fault.isdigit() else 0
    )
    assert ("hello there" in str(caught.value)) is (fault == "echo")


@pytest.mark.parametrize("fault", ["cut", "broken"])
def test_a_stream_that_breaks_says_so(engine: Engine, fault: str) -> None:
    seen = Seen()
    with Running(settings([engine]), lambda g: g.cast.watchers.append(seen)) as gateway:
        stream = gateway.client().chat.completions.create(
            model=MODEL, messages=HELLO, stream=True, extra_body={"fault": fault}
        )
        with pytest.raises(openai.APIError, match="broke off"):
            list(stream)
    assert seen.served[0].error == "broken"


@pytest.mark.parametrize(("fault", "field"), [("silent", "first_token"), ("stall", "between_tokens")])
def test_waiting_has_an_end(engine: Engine, fault: str, field: str) -> None:
    seen = Seen()
    with Running(
        settings([engine], timeouts={field: 0.2}), lambda g: g.cast.watchers.append(seen)
    ) as gateway:
        stream = gateway.client().chat.completions.create(
            model=MODEL, messages=HELLO, stream=True, extra_body={"fault": fault}
        )
        with pytest.raises(openai.APIError, match=f"timeouts.{field}"):
            list(stream)
    assert seen.served[0].error == "timeout"


def test_a_client_that_leaves_stops_the_engine(engine: Engine) -> None:
    engine.per_token = 0.05
    seen = Seen()
    with Running(settings([engine]), lambda g: g.cast.watchers.append(seen)) as gateway:
        stream = gateway.client().chat.completions.create(
            model=MODEL, messages=HELLO, stream=True, max_tokens=1000
        )
        for _ in range(3):
            next(iter(stream))
        stream.close()
        wait_until(lambda: engine.aborted == 1 and seen.served)
    assert (seen.served[0].status, seen.served[0].error) == (499, "cancelled")
    assert 1 <= seen.served[0].tokens < 10


def wait_until(true: Any, seconds: float = 5) -> None:
    import time

    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)
