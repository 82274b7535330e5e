"""Another replica is asked only while the client has nothing."""

from __future__ import annotations

import subprocess
import sys

import openai
import pytest

from kvant.gateway.settings import Arm, Routing
from tests.gateway.engine import MODEL, Engine
from tests.gateway.proxy.test_calls import Seen
from tests.gateway.running import HELLO, Running, settings


@pytest.mark.parametrize("fault", ["502", "503"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_replica_that_cannot_is_passed_over(fault: str, stream: bool) -> None:
    seen = Seen()
    with (
        Engine(fault=fault) as bad,
        Engine(name="good") as good,
        Running(settings([bad, good]), lambda g: g.cast.watchers.append(seen)) as gateway,
    ):
        for _ in range(6):
            answer = gateway.post({"messages": HELLO, "stream": stream})
            assert answer.status_code == 200
            assert '"model": "good"' in answer.text or '"model":"good"' in answer.text
    assert len(seen.served) == 6
    assert {one.error for one in seen.served} == {""}


def test_a_replica_that_is_gone_is_passed_over_and_left_alone() -> None:
    with Engine() as bad, Engine() as good, Running(settings([bad, good])) as gateway:
        bad.__exit__()
        assert {gateway.post({"messages": HELLO}).status_code for _ in range(6)} == {200}


def test_nothing_is_asked_twice_once_the_client_has_a_token() -> None:
    with Engine(fault="cut") as one, Engine(fault="cut") as other, Running(settings([one, other])) as gateway:
        stream = gateway.client().chat.completions.create(model=MODEL, messages=HELLO, stream=True)
        with pytest.raises(openai.APIError, match="broke off"):
            list(stream)
        assert len(one.requests) + len(other.requests) == 1


def test_no_engine_at_all_is_a_502_that_says_so() -> None:
    with Engine() as engine:
        made = settings([engine])
    with Running(made) as gateway:
        answer = gateway.post({"messages": HELLO})
        assert answer.status_code == 502
        assert "no engine could be reached" in answer.json()["error"]["message"]
        assert gateway.post({"messages": HELLO}).status_code == 502


def test_kill_9_of_an_engine_breaks_its_streams_and_no_other_call() -> None:
    command = [sys.executable, "-m", "tests.gateway.engine", "--per-token", "0.05", "--first", "0.01"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process, Engine() as good:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        made = settings([good])
        arms = made.arms.model_copy(update={"baseline": Arm(urls=(url, good.url))})
        routing = Routing(prefix_characters=0)
        with Running(made.model_copy(update={"arms": arms, "routing": routing})) as gateway:
            arm = gateway.gateway.arms["baseline"]
            arm.replicas[1].inflight += 10  # so that the first one is asked
            stream = gateway.client().chat.completions.create(
                model=MODEL, messages=HELLO, stream=True, max_tokens=500
            )
            for _ in range(3):
                next(stream)
            process.kill()
            process.wait()
            with pytest.raises(openai.APIError, match="broke off"):
                list(stream)
            assert {gateway.post({"messages": HELLO}).status_code for _ in range(4)} == {200}
