"""Bodies that go on where an answer was stopped, and what cannot be gone on with."""

from __future__ import annotations

from typing import Any

import pytest

from kvant.gateway.answers.takeover import Continuation, continuation
from kvant.gateway.call import Call

ASKED = {"model": "m", "messages": [{"role": "user", "content": "Why?"}], "max_tokens": 50, "seed": 3}
GOOD = "Because the sky "


def call(body: dict[str, Any], path: str = "/v1/chat/completions") -> Call:
    return Call("c", path, body, "", "")


def on(body: dict[str, Any], good: str = GOOD, tokens: int = 4) -> Continuation | None:
    return continuation(call(body), good, tokens)


def test_a_chat_goes_on_in_its_last_message() -> None:
    found = on(ASKED)
    assert found is not None
    said = {"role": "assistant", "content": "Because the sky"}
    assert found.body == {
        **ASKED, "messages": [*ASKED["messages"], said], "max_tokens": 46,
        "continue_final_message": True, "add_generation_prompt": False,
    }  # fmt: skip


def test_blanks_at_the_seam_are_not_sent_twice() -> None:
    found = on(ASKED, "Because the sky \n")
    assert found is not None
    assert [found.fit(piece) for piece in (" ", "\n is blue", " now")] == ["", " is blue", " now"]
    found = on(ASKED, "Because the sky ")
    assert found is not None
    assert [found.fit(piece) for piece in ("is", " blue")] == ["is", " blue"]


def test_a_message_that_was_being_continued_grows() -> None:
    body = {
        **ASKED, "messages": [*ASKED["messages"], {"role": "assistant", "content": "Well: "}],
        "continue_final_message": True, "add_generation_prompt": False,
    }  # fmt: skip
    found = on(body)
    assert found is not None
    assert [one["content"] for one in found.body["messages"]] == ["Why?", "Well: Because the sky"]


def test_a_completion_goes_on_behind_its_prompt() -> None:
    found = continuation(call({"prompt": ["Why? "], "min_tokens": 2}, "/v1/completions"), GOOD, 4)
    assert found is not None
    assert found.body == {"prompt": "Why? " + GOOD, "min_tokens": 0}
    assert found.fit(" is") == " is"


@pytest.mark.parametrize(
    "asked",
    [
        {"tools": [{"type": "function", "function": {"name": "f"}}]}, {"logprobs": True}, {"n": 2},
        {"response_format": {"type": "json_object"}}, {"structured_outputs": {"regex": "a+"}},
        {"max_tokens": 4}, {"max_completion_tokens": 3}, {"use_beam_search": True},
    ],
    ids=lambda asked: next(iter(asked)),
)  # fmt: skip
def test_what_cannot_be_gone_on_with_can_still_be_asked_anew(asked: dict[str, Any]) -> None:
    assert on({**ASKED, **asked}) is None
    found = on({**ASKED, **asked}, "", 0)
    assert found is not None
    assert found.body == {**ASKED, **asked}


def test_token_ids_and_several_prompts_are_not_gone_on_with() -> None:
    for prompt in ([1, 2, 3], ["a", "b"], [[1], [2]]):
        assert continuation(call({"prompt": prompt}, "/v1/completions"), GOOD, 4) is None


def test_plain_text_is_no_grammar() -> None:
    assert on({**ASKED, "response_format": {"type": "text"}}) is not None
