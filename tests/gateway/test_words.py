"""What is read of a request, and what the arm is told."""

from __future__ import annotations

from typing import Any

import pytest

from kvant.gateway import intake, outgoing, prompt, trace
from kvant.gateway.settings import Limits
from kvant.http.body import Refused

CHAT: dict[str, Any] = {
    "messages": [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "hello"}, {"type": "image_url"}]},
        {"role": "assistant", "content": None},
        {"role": "user", "content": "more"},
    ]
}


def test_the_text_of_a_prompt() -> None:
    assert list(prompt.pieces(CHAT)) == ["be brief", "hello", "more"]
    assert prompt.length(CHAT) == 17
    assert prompt.beginning(CHAT, 10) == "be briefhe"
    assert prompt.beginning(CHAT, 0) == ""
    assert list(prompt.pieces({"prompt": ["a", "b"]})) == ["a", "b"]
    assert prompt.length({"prompt": [1, 22, 333]}) == 12
    for junk in (None, 3, {"x": 1}, [None, {"content": 7}]):
        assert prompt.length({"messages": junk}) == prompt.length({"prompt": junk}) - prompt.length(
            {"prompt": junk}
        )


def test_a_conversation_is_known_by_how_it_began() -> None:
    first = {"messages": CHAT["messages"][:2]}
    assert prompt.conversation(first, "k", "") == prompt.conversation(CHAT, "k", "")
    other = {"messages": [CHAT["messages"][0], {"role": "user", "content": "bye"}]}
    assert prompt.conversation(other, "k", "") != prompt.conversation(first, "k", "")
    assert prompt.conversation(first, "other", "") != prompt.conversation(first, "k", "")
    assert prompt.conversation(first, "k", "s") == prompt.conversation(other, "k", "s")
    assert prompt.conversation({**first, "user": "u"}, "k", "") == prompt.conversation(
        {**other, "user": "u"}, "k", ""
    )


@pytest.mark.parametrize(
    ("header", "found"),
    [(None, "interactive"), ("0", "interactive"), ("-3", "interactive"), ("1", "batch"), ("Batch", "batch")],
)
def test_a_priority_is_a_word_or_vllms_number(header: str | None, found: str) -> None:
    assert intake.priority(header) == found


@pytest.mark.parametrize("header", ["", "soon", "1.5", "--1", "9" * 50, "²"])
def test_another_priority_is_refused(header: str) -> None:
    with pytest.raises(Refused):
        intake.priority(header)


def test_tokens_are_estimated_from_what_is_asked() -> None:
    assert intake.estimate({"prompt": "x" * 400, "max_tokens": 50}) == 150
    assert intake.estimate({"prompt": "x" * 400}) == 100 + intake.ANSWER_TOKENS
    assert intake.estimate({"prompt": "", "max_tokens": -5}) == 0
    assert intake.check({"prompt": "x"}, Limits(answer_tokens=9))["max_tokens"] == 9


def test_the_client_decides_nothing_that_is_the_gateways() -> None:
    sent = outgoing.body({"cache_salt": "x", "priority": -1, "stream": True, "stream_options": 7}, "")
    assert sent == {"priority": 0, "stream": True, "stream_options": {"include_usage": True}}
    assert not outgoing.wants_usage({"stream_options": {"include_usage": 1}})
    assert outgoing.wants_usage({"stream_options": {"include_usage": True}})


def test_a_trace_goes_on_and_a_wrong_one_does_not() -> None:
    good = "00-" + "1" * 32 + "-" + "2" * 16 + "-01"
    sent = trace.onward(good, "vendor=1")
    assert sent["traceparent"].startswith("00-" + "1" * 32 + "-")
    assert sent["traceparent"].endswith("-01")
    assert sent["tracestate"] == "vendor=1"
    for wrong in (
        None,
        "",
        good.upper().replace("0", "g"),
        "00-" + "0" * 32 + "-" + "2" * 16 + "-01",
        good + "\n",
    ):
        fresh = trace.onward(wrong, "vendor=1")
        assert fresh["traceparent"].endswith("-00")
        assert "tracestate" not in fresh
    assert "tracestate" not in trace.onward(good, "a\r\nb")
