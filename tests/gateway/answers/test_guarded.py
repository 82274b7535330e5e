"""Through a real gateway: faults trip before they reach the client, and the baseline finishes the answer."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from kvant.gateway.answers.guard import CandidateGuard
from kvant.gateway.answers.settings import Breaker
from kvant.gateway.app import Gateway
from kvant.gateway.call import Call, Served
from kvant.gateway.cast import Always
from kvant.rollout.evidence import BASELINE, CANDIDATE
from tests.gateway.answers.texts import DEGENERATE, HEALTHY, JSON, PROSE, Case
from tests.gateway.engine import MODEL, Engine
from tests.gateway.running import Running, settings

SOUND = PROSE + "so that the next word can be chosen among all words that the model knows."
FAULTS = [pytest.param(sign, cases[0], id=sign) for sign, cases in DEGENERATE.items()]
FAST = {"per_token": 0.0, "first": 0.0}


class Ended:
    def __init__(self) -> None:
        self.served: list[Served] = []

    def began(self, call: Call, arm: str) -> None:
        pass

    def ended(self, served: Served) -> None:
        self.served.append(served)

    def one(self) -> Served:
        """The only call; it ends a moment after its client has the answer."""
        until = time.monotonic() + 5
        while not self.served and time.monotonic() < until:
            time.sleep(0.005)
        (served,) = self.served
        return served


class Arms:
    """A gateway that sends everything to a guarded candidate."""

    def __init__(self) -> None:
        self.baseline, self.candidate = Engine(**FAST), Engine(**FAST)
        self.ended = Ended()

    def __enter__(self) -> Arms:
        self.baseline.__enter__()
        self.candidate.__enter__()
        self.gateway = Running(settings([self.baseline], [self.candidate]), self._plug).__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        self.gateway.__exit__(*raised)
        self.candidate.__exit__()
        self.baseline.__exit__()

    def _plug(self, gateway: Gateway) -> None:
        gateway.cast.router = Always(CANDIDATE)
        gateway.cast.guard = CandidateGuard(Breaker())
        gateway.cast.watchers.append(self.ended)

    def stream(self, prompt: str, **asked: Any) -> tuple[str, list[str]]:
        """The text that a client of OpenAI's gets, and every finish reason."""
        text, reasons = "", []
        with self.gateway.client(http_client=httpx.Client(verify=False)) as client:
            for chunk in client.chat.completions.create(
                model=MODEL, messages=[{"role": "user", "content": prompt}], stream=True, **asked
            ):
                for choice in chunk.choices:
                    text += choice.delta.content or ""
                    reasons += [choice.finish_reason] if choice.finish_reason else []
        return text, reasons


@pytest.fixture(scope="module")
def both() -> Iterator[Arms]:
    with Arms() as one:
        yield one


@pytest.fixture
def arms(both: Arms) -> Arms:
    """As good as new."""
    both.gateway.gateway.cast.router = Always(CANDIDATE)
    for engine in (both.baseline, both.candidate):
        engine.writes = ""
        engine.requests.clear()
    both.ended.served.clear()
    return both


@pytest.mark.parametrize(("sign", "case"), FAULTS)
def test_a_fault_is_taken_over_by_the_baseline(arms: Arms, sign: str, case: Case) -> None:
    sound = '{"rows": []}' if sign == "json" else SOUND
    arms.candidate.writes, arms.baseline.writes = case.answer, sound
    text, reasons = arms.stream(case.prompt, **case.asked)
    assert reasons == ["stop"]
    wrong = text.removesuffix(sound) if sign == "json" else text.replace(PROSE, "", 1)
    assert len(wrong) - len(sound) < 200, "but for a loop's first rounds, the client got the sound answer"
    assert text.endswith(sound[-20:])
    served = arms.ended.one()
    assert (served.arm, served.tripped, served.status) == (CANDIDATE, sign, 200)
    assert served.text == text


@pytest.mark.parametrize("name", ["chat-0", "tests", "falses", "persian", "rule"])
def test_a_sound_answer_is_left_alone(arms: Arms, name: str) -> None:
    case = next(one for one in HEALTHY if one.name == name)
    arms.candidate.writes = case.answer
    text, reasons = arms.stream(case.prompt, **case.asked)
    assert (text, reasons) == (case.answer, ["stop"])
    assert arms.baseline.requests == []
    assert arms.ended.one().tripped == ""


def test_a_continuation_goes_on_in_the_middle_of_the_sound_text(arms: Arms) -> None:
    """Nothing twice, nothing missing, not even a blank at the seam."""
    arms.baseline.writes = SOUND
    arms.candidate.writes = SOUND[:60] + "\ufffd" * 9
    text, reasons = arms.stream("What is a cache?", max_tokens=100)
    assert (text, reasons) == (SOUND, ["stop"])
    (asked,) = arms.baseline.requests
    assert asked["body"]["messages"][-1]["role"] == "assistant"
    assert SOUND.startswith(asked["body"]["messages"][-1]["content"])
    assert asked["body"]["continue_final_message"] is True
    assert asked["body"]["add_generation_prompt"] is False
    assert 80 <= asked["body"]["max_tokens"] < 100


def test_an_answer_in_one_piece_is_asked_anew(arms: Arms) -> None:
    arms.baseline.writes, arms.candidate.writes = SOUND, "!" * 2000
    answer = arms.gateway.post({"messages": [{"role": "user", "content": "Why?"}]}, verify=False).json()
    assert answer["choices"][0]["message"]["content"] == SOUND


def test_the_baseline_is_not_guarded(arms: Arms) -> None:
    arms.gateway.gateway.cast.router = Always(BASELINE)
    arms.baseline.writes = "no " * 400
    text, _ = arms.stream("Why?")
    assert text == "no " * 400
    assert arms.candidate.requests == []


def test_json_is_asked_anew_only_while_nothing_of_it_was_sent(arms: Arms) -> None:
    """A grammar begins at the beginning: what is half sent cannot be gone on with, and ends with a reason."""
    arms.baseline.writes, arms.candidate.writes = '{"a": 1}', '{"a": [1, 2, 3], "b": oops}'
    text, reasons = arms.stream("Rows?", **JSON)
    assert text == '{"a": [1, 2, 3], "b": '
    assert reasons == ["error"]
    assert arms.baseline.requests == []


def test_an_answer_too_long_to_be_remembered_ends_with_a_reason(arms: Arms, monkeypatch: Any) -> None:
    from kvant.gateway.proxy import tally

    monkeypatch.setattr(tally, "MAX_TEXT", 50)
    arms.candidate.writes = SOUND + "\ufffd" * 9
    text, reasons = arms.stream("Why?")
    assert reasons == ["error"]
    assert SOUND.startswith(text)
    assert arms.baseline.requests == []
