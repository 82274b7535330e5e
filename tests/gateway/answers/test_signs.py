"""Sound answers have no sign; degenerate ones have theirs, piece by piece as well as at once."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvant.gateway.answers import finished
from kvant.gateway.answers.finished import Answer, Usual
from kvant.gateway.answers.loops import Loops
from kvant.gateway.answers.sentinel import Reading, readers
from kvant.gateway.answers.shape import Shape
from kvant.gateway.answers.signs import SIGNS
from kvant.gateway.call import Call
from kvant.gateway.roles import Sign
from tests.gateway.answers.texts import CORPUS, DEGENERATE, HEALTHY, JSON, PROSE, Case

FAULTS = [
    pytest.param(sign, case, id=f"{sign}-{case.name}") for sign in DEGENERATE for case in DEGENERATE[sign]
]
SOUND = [pytest.param(case, id=case.name) for case in HEALTHY]


def call(case: Case) -> Call:
    return Call("c", "/v1/chat/completions", case.body, "", "")


def pieces(text: str, seed: int = 0) -> Iterator[str]:
    rng, at = random.Random(seed), 0
    while at < len(text):
        length = rng.randint(1, 8)
        yield text[at : at + length]
        at += length


def signs(case: Case, finish: str = "stop", **answer: object) -> tuple[str, ...]:
    return finished.found(call(case), Answer(case.answer, finish, **answer), Usual())  # type: ignore[arg-type]


@pytest.mark.parametrize("case", SOUND)
def test_a_sound_answer_never_trips(case: Case) -> None:
    sentinel = Reading(readers(case.body))
    assert [said for piece in pieces(case.answer) if (said := sentinel.read(piece)) is Sign.TRIP] == []
    assert signs(case) == ()


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CORPUS])
def test_little_of_prose_and_code_is_held_back(case: Case) -> None:
    sentinel = Reading(readers(case.body))
    held = sum(len(piece) for piece in pieces(case.answer) if sentinel.read(piece) is Sign.HOLD)
    assert held <= 0.05 * len(case.answer)


@pytest.mark.parametrize(("sign", "case"), FAULTS)
def test_a_degenerate_answer_trips_before_it_is_sent(sign: str, case: Case) -> None:
    sentinel = Reading(readers(case.body))
    sent, held = "", ""
    for piece in pieces(case.answer):
        said = sentinel.read(piece)
        if said is Sign.TRIP:
            break
        held += piece
        if said is Sign.CLEAR:
            sent, held = sent + held, ""
    else:
        pytest.fail("never tripped")
    assert sentinel.reason == sign
    assert sentinel.clean() == len(sent)
    assert case.answer.startswith(sent)
    sound = case.answer.find(PROSE) + len(PROSE) if case.answer.startswith(PROSE) else 0
    assert len(sent) - sound <= 330, "more than two rounds of the longest loop were sent"
    assert sentinel.read("all is well again") is Sign.TRIP
    assert sign in signs(case)
    assert sign in SIGNS


@pytest.mark.parametrize(("sign", "case"), FAULTS)
def test_the_pieces_do_not_matter(sign: str, case: Case) -> None:
    for seed in (1, 2):
        sentinel = Reading(readers(case.body))
        assert any(sentinel.read(piece) is Sign.TRIP for piece in pieces(case.answer, seed))
        assert sentinel.reason == sign


@pytest.mark.parametrize("length", [2_000, 16_000, 64_000])
def test_a_token_costs_the_same_however_long_the_answer_is(length: int) -> None:
    """Lines of Python run for each of the last 500 tokens, counted; memory is bounded."""
    rng = random.Random(5)
    text = "".join(
        rng.choice(["alpha ", "beta ", "gamma, ", "delta\n", "好", "1.5 "]) for _ in range(length // 5)
    )
    sentinel = Reading(readers(Case("", PROSE, "").body))
    tokens = list(pieces(text))
    for token in tokens[:-500]:
        sentinel.read(token)
    lines = [0]

    def count(frame: object, event: str, _: object) -> object:
        lines[0] += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)  # type: ignore[arg-type]
    try:
        for token in tokens[-500:]:
            sentinel.read(token)
    finally:
        sys.settrace(before)
    assert lines[0] / 500 < 300
    loops = Loops(lambda: "")
    for token in tokens:
        loops.read(token)
    assert len(loops._seen) <= 257
    assert len(loops._tail) <= 1100


def test_broken_tool_calls_are_a_sign_unless_the_answer_was_cut() -> None:
    case = Case("tool", "Weather?", "")
    assert signs(case, "tool_calls", tools=('{"city": "Kairo"}',)) == ()
    assert signs(case, "tool_calls", tools=('{"city": "Kairo"',)) == ("tool_call",)
    assert signs(case, "tool_calls", tools=('"Kairo"',)) == ("tool_call",)
    assert signs(case, "length", tools=('{"city": "Kai',)) == ()


def test_json_that_ends_too_early_is_broken_only_if_nothing_cut_it() -> None:
    case = Case("cut", "Rows?", '{"a": [1, 2', JSON)
    assert signs(case, "stop") == ("json",)
    assert signs(case, "length") == ()


def test_to_stop_at_once_is_a_sign_unless_a_tool_was_called_or_it_was_cut() -> None:
    asked = Call("c", "/v1/chat/completions", {}, "", "")

    def found(**said: object) -> tuple[str, ...]:
        return finished.found(asked, Answer(**said), Usual(), watched=True)  # type: ignore[arg-type]

    assert found(text="", finish="stop", tokens=1) == ("empty",)
    assert found(text=" \n", finish="stop", tokens=2) == ("empty",)
    assert found(text="", finish="stop", tokens=90) == ()  # it reasoned
    assert found(text="", finish="tool_calls", tokens=1, tools=("{}",)) == ()
    assert found(text="", finish="length", tokens=1) == ()
    assert found(text="4", finish="stop", tokens=1) == ()


def test_of_an_answer_that_was_watched_only_the_end_is_looked_at() -> None:
    loop, cut = Case("loop", "Why?", "the " * 400), Case("cut", "Rows?", '{"a": [1, 2', JSON)
    for case, watched, expected in ((loop, False, ("repetition",)), (loop, True, ()), (cut, True, ("json",))):
        assert finished.found(call(case), Answer(case.answer, "stop"), Usual(), watched) == expected


def test_a_runaway_is_far_longer_than_the_baseline_writes() -> None:
    usual, asked = Usual(), call(Case("", "Why?", ""))
    for n in range(60):
        usual.add(100 + n)
    for tokens, finish, expected in ((4096, "length", ("runaway",)), (4096, "stop", ()), (300, "length", ())):
        assert finished.found(asked, Answer("Because.", finish, tokens), usual) == expected
    assert finished.found(asked, Answer("Because.", "length", 4096), Usual()) == (), "nothing is usual yet"


values = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(values, st.booleans(), st.sampled_from([None, 2]))
@settings(max_examples=50, deadline=None)
def test_whatever_is_json_keeps_its_shape(value: object, ascii: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii, indent=indent)
    shape = Shape()
    assert all(shape.read(one) is Sign.CLEAR for one in text)
    assert shape.complete


@given(values, st.integers(0, 10**6), st.characters(max_codepoint=0x7F))
@settings(max_examples=100, deadline=None)
def test_the_shape_agrees_with_the_parser(value: object, at: int, wrong: str) -> None:
    """One character changed: what Python's parser refuses, the shape refuses or finds incomplete."""
    text = json.dumps(value)
    at %= len(text)
    text = text[:at] + wrong + text[at + 1 :]
    try:
        json.loads(text, parse_constant=lambda _: 1 / 0)
        sound = True
    except (ValueError, ZeroDivisionError):
        sound = False
    shape = Shape()
    assert (shape.read(text) is Sign.CLEAR and shape.complete) == sound
