"""Answers that are none are refused by name, whatever shape they have."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kvant.errors import EngineError
from kvant.quality.gate.client import Client
from tests.launch.stub import listening

USAGE = {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}
BEST = {"a": -0.1, "b": -3.0}
SCORED = {"7": {"logprob": -0.1, "decoded_token": "x"}, "8": {"logprob": -3.0, "decoded_token": "y"}}


@contextmanager
def asked(reply: Callable[[Request], Awaitable[Response]]) -> Iterator[Client]:
    """A client of a server that answers so."""
    routes = [Route("/v1/{path:path}", reply, methods=["POST"])]
    with listening(Starlette(routes=routes)) as url, Client(url, "m", timeout=5) as client:
        yield client


def said(answer: Any, ask: str) -> Any:
    """What a client makes of one answer to `ask`."""

    async def reply(request: Request) -> Response:
        return Response(json.dumps(answer), media_type="application/json")

    with asked(reply) as client:
        if ask == "chat":
            return client.chat([{"role": "user", "content": "p"}], 1, 20)
        if ask == "length":
            return client.length("p")
        return client.complete("p", 1, 20) if ask == "complete" else client.score("p", 20)


def text_scored(text: str, read: str) -> Any:
    """A text of letters, scored by a server that has a token a letter and read only so much."""
    ids = [ord(one) for one in read]
    given = [
        None,
        *({str(n): {"logprob": -0.1, "decoded_token": chr(n)}, "1": {"logprob": -9}} for n in ids[1:]),
    ]

    async def reply(request: Request) -> Response:
        return Response(json.dumps(scored(given, ids)), media_type="application/json")

    with asked(reply) as client:
        return client.score(text, 20)


TEXT = " ".join(f"Sentence {n} of the text, and its end." for n in range(20))


@pytest.mark.parametrize("read", [TEXT, f"\x02{TEXT}", f"{TEXT}</s>"])
def test_a_whole_text_is_scored_with_what_a_tokenizer_adds(read: str) -> None:
    assert len(text_scored(TEXT, read).losses) == len(read) - 1


@pytest.mark.parametrize("read", [TEXT[:-3], TEXT[: len(TEXT) // 2], TEXT[len(TEXT) // 2 :]])
def test_a_text_that_was_cut_silently_is_refused(read: str) -> None:
    with pytest.raises(EngineError, match=r"http://127.*letters of a text.*cuts prompts silently"):
        text_scored(TEXT, read)


def completion(best: Any, tokens: Any = ("a",), own: Any = (-0.1,)) -> dict[str, Any]:
    logprobs = {"tokens": tokens, "token_logprobs": own, "top_logprobs": best}
    return {"choices": [{"text": "a", "finish_reason": "stop", "logprobs": logprobs}], "usage": USAGE}


def talk(best: Any) -> dict[str, Any]:
    content = [{"token": "a", "logprob": -0.1, "top_logprobs": best}]
    choice = {"message": {"content": "a"}, "finish_reason": "stop", "logprobs": {"content": content}}
    return {"choices": [choice], "usage": USAGE}


def scored(given: Any, ids: Any = (5, 7)) -> dict[str, Any]:
    return {"choices": [{"text": "", "prompt_logprobs": given, "prompt_token_ids": ids}], "usage": USAGE}


def test_sound_answers_are_read() -> None:
    assert said(completion([{"b": -3.0}]), "complete").likely == (BEST,)
    assert said(talk([{"token": "b", "logprob": -3.0}]), "chat").likely == (BEST,)
    assert said(scored([None, SCORED]), "score").losses == [0.1]


@pytest.mark.parametrize(
    ("ask", "answer", "told"),
    [
        *((ask, [], "no answer of OpenAI's API") for ask in ("complete", "chat", "score", "length")),
        *((ask, {"choices": None}, "no answer|how many tokens") for ask in ("complete", "score", "length")),
        ("chat", {"choices": [{"message": None}]}, "no answer of OpenAI's API"),
        ("complete", completion([None]), "no answer of OpenAI's API"),
        ("complete", completion([BEST, BEST]), "no answer of OpenAI's API"),
        ("complete", completion([BEST], own=[float("nan")]), "not finite"),
        ("complete", completion([{"b": float("-inf")}]), "not finite"),
        ("complete", completion([{"b": 5.0}]), "above zero"),
        ("complete", completion([{"b": "high"}]), "no answer of OpenAI's API"),
        ("complete", completion([{}]), "one likely token at each place, where 20"),
        ("chat", talk([]), "one likely token at each place, where 20"),
        ("chat", talk([{"token": "b", "logprob": float("nan")}]), "not finite"),
        ("score", scored([None, SCORED], ids=(5, 9)), "no log-probability of a token that it was given"),
        ("score", scored([None, SCORED, SCORED]), "no answer of OpenAI's API"),
        ("score", scored([None, {"7": {"logprob": -0.1}}]), "one likely token at each place"),
        ("score", scored([None, None]), "no answer of OpenAI's API"),
    ],
)
def test_others_are_refused(ask: str, answer: Any, told: str) -> None:
    with pytest.raises(EngineError, match=told):
        said(answer, ask)
