"""What a sentinel's signs do to a stream: nothing, keep back, stop, and go on elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from kvant.gateway.answers.breaker import Outcome
from kvant.gateway.answers.fuse import outcome
from kvant.gateway.app import Gateway
from kvant.gateway.call import Call
from kvant.gateway.roles import Sign
from tests.gateway.engine import MODEL, Engine
from tests.gateway.proxy.test_calls import Seen
from tests.gateway.running import HELLO, Running, settings

BAD = "kv "


class Sentinel:
    """Suspicious of two bad words in a row, sure of four; all before them is good."""

    reason = "repetition"

    def __init__(self) -> None:
        self.text = ""
        self.run = 0

    def read(self, text: str) -> Sign:
        for word in text.split():
            self.text += f"{word} "
            self.run = self.run + 1 if word == BAD.strip() else 0
        return Sign.TRIP if self.run >= 4 else Sign.HOLD if self.run >= 1 else Sign.CLEAR

    def clean(self) -> int:
        return len(self.text) - self.run * len(BAD)


class Guard:
    def __init__(self, refuge: str | None = "baseline") -> None:
        self._refuge = refuge

    def watch(self, call: Call, arm: str) -> Sentinel | None:
        return Sentinel() if arm == "candidate" else None

    def refuge(self, call: Call, arm: str) -> str | None:
        return self._refuge


class Candidate:
    def choose(self, call: Call) -> str:
        return "candidate"


@pytest.fixture
def engines() -> Iterator[tuple[Engine, Engine]]:
    with Engine() as baseline, Engine() as candidate:
        yield baseline, candidate


def plugged(seen: Seen, guard: Guard) -> Any:
    def plug(gateway: Gateway) -> None:
        gateway.cast.router, gateway.cast.guard = Candidate(), guard
        gateway.cast.watchers.append(seen)

    return plug


def spoken(gateway: Running, **asked: Any) -> tuple[str, list[Any]]:
    """The text of a stream and its chunks."""
    chunks = list(
        gateway.client().chat.completions.create(
            model=MODEL, messages=HELLO, stream=True, stream_options={"include_usage": True}, **asked
        )
    )
    return "".join(one.choices[0].delta.content or "" for one in chunks if one.choices), chunks


def test_a_clear_answer_passes_unchanged(engines: tuple[Engine, Engine]) -> None:
    seen = Seen()
    with Running(settings(*([one] for one in engines)), plugged(seen, Guard())) as gateway:
        asked = {"messages": HELLO, "stream": True, "max_tokens": 6}
        through = gateway.post(asked).text
        own = engines[1].requests[-1]["headers"]["x-request-id"]
        bare = httpx.post(engines[1].url + "/v1/chat/completions", json={"model": MODEL, **asked}).text
    assert through == bare.replace("chatcmpl-none", f"chatcmpl-{own}")
    assert seen.served[0].tripped == ""


def test_a_stream_that_trips_goes_on_at_the_refuge_without_a_bad_word(engines: tuple[Engine, Engine]) -> None:
    baseline, candidate = engines
    candidate.fault = "degenerate"
    seen = Seen()
    with Running(settings([baseline], [candidate]), plugged(seen, Guard())) as gateway:
        text, chunks = spoken(gateway, max_tokens=12)
    assert BAD not in text
    assert len(text.split()) == 12
    asked = baseline.requests[-1]["body"]
    said = asked["messages"][-1]
    assert said["role"] == "assistant"
    assert text.startswith(said["content"])
    assert (asked["continue_final_message"], asked["add_generation_prompt"]) == (True, False)
    assert asked["max_tokens"] == 6
    assert chunks[-1].usage.completion_tokens == 12
    assert chunks[-1].usage.prompt_tokens == 2
    assert [one.choices[0].finish_reason for one in chunks if one.choices][-1] == "length"
    served = seen.served[0]
    assert (served.arm, served.tripped, served.tokens, served.text) == ("candidate", "repetition", 12, text)
    assert served.error == ""


def test_without_a_refuge_the_stream_ends_with_its_reason(engines: tuple[Engine, Engine]) -> None:
    baseline, candidate = engines
    candidate.fault = "degenerate"
    seen = Seen()
    with Running(settings([baseline], [candidate]), plugged(seen, Guard(None))) as gateway:
        text, chunks = spoken(gateway, max_tokens=12)
    assert len(text.split()) == 6
    assert BAD not in text
    last = chunks[-1].choices[0]
    assert (last.finish_reason, last.stop_reason) == ("error", "kvant:repetition")
    assert baseline.requests == []
    assert seen.served[0].finish == "error"


def test_an_answer_in_one_piece_is_asked_for_anew(engines: tuple[Engine, Engine]) -> None:
    baseline, candidate = engines
    candidate.fault = "degenerate"
    seen = Seen()
    with Running(settings([baseline], [candidate]), plugged(seen, Guard())) as gateway:
        answer = gateway.client().completions.create(model=MODEL, prompt="once upon", max_tokens=12)
    assert BAD not in answer.choices[0].text
    assert "continue_final_message" not in baseline.requests[-1]["body"]
    assert seen.served[0].tripped == "repetition"
    assert seen.served[0].text == answer.choices[0].text


def test_a_held_answer_that_ends_is_sent_whole(engines: tuple[Engine, Engine]) -> None:
    baseline, candidate = engines
    candidate.fault = "degenerate"
    with Running(settings([baseline], [candidate]), plugged(Seen(), Guard())) as gateway:
        text, _ = spoken(gateway, max_tokens=6)
    assert text.split()[3:] == ["kv"] * 3


def test_a_sentinel_that_fails_stops_nothing(engines: tuple[Engine, Engine]) -> None:
    class Failing(Guard):
        def watch(self, call: Call, arm: str) -> Any:
            sentinel = Sentinel()
            sentinel.read = lambda text: 1 / 0  # type: ignore[method-assign,assignment,return-value]
            return sentinel

    with Running(settings(*([one] for one in engines)), plugged(Seen(), Failing())) as gateway:
        assert len(spoken(gateway, max_tokens=7)[0].split()) == 7


def test_what_only_the_candidate_refuses_the_baseline_answers(engines: tuple[Engine, Engine]) -> None:
    baseline, candidate = engines
    candidate.fault = "echo"
    seen = Seen()
    with Running(settings([baseline], [candidate]), plugged(seen, Guard())) as gateway:
        text, chunks = spoken(gateway, max_tokens=6)
        whole = gateway.post({"messages": HELLO, "max_tokens": 6}).json()["choices"][0]["message"]
    assert text == whole["content"] != ""
    assert [one.choices[0].delta.role for one in chunks if one.choices].count("assistant") == 1
    for served in seen.served:
        assert (served.arm, served.status, served.error, served.tripped) == ("candidate", 200, "", "refusal")
        assert outcome(served) is Outcome.TRIPPED


def test_what_both_arms_refuse_is_the_clients_own_fault(engines: tuple[Engine, Engine]) -> None:
    seen = Seen()
    with Running(settings(*([one] for one in engines)), plugged(seen, Guard())) as gateway:
        told = gateway.post({"messages": HELLO, "max_tokens": -1})
    assert (told.status_code, "positive integer" in told.text) == (400, True)
    assert [(one.error, one.tripped) for one in seen.served] == [("refused", "")]
    assert outcome(seen.served[0]) is Outcome.NEITHER


def test_where_no_baseline_runs_the_candidates_refusal_stands(engines: tuple[Engine, Engine]) -> None:
    seen = Seen()
    with Engine() as gone:
        pass
    with Running(settings([gone], [engines[1]]), plugged(seen, Guard())) as gateway:
        told = gateway.post({"messages": HELLO, "max_tokens": -1})
    assert (told.status_code, "positive integer" in told.text) == (400, True)
    assert [(one.error, one.tripped) for one in seen.served] == [("refused", "")]
