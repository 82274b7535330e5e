"""Reported failures at the edge of the API: H5-43, H5-45, H5-46."""

from __future__ import annotations

import json
import random
from typing import Any

import httpx
import psutil
import pytest

from tests.e2e.fixtures import ROOM
from tests.e2e.server import MODEL, Server

CANARY = "ZQXCANARY"
MAX_BODY = 8 << 10


def post(
    server: Server, content: bytes | str | dict[str, Any], path: str = "/v1/completions"
) -> httpx.Response:
    body = json.dumps(content) if isinstance(content, dict) else content
    return httpx.post(
        server.url + path, content=body, headers={"content-type": "application/json"}, timeout=60
    )


def completion(**changed: Any) -> dict[str, Any]:
    return {"model": MODEL, "prompt": f"{CANARY} hello", "max_tokens": 2, **changed}


# H5-43: the engine reduces its longest request to what fits; admission and /v1/models must follow.


def test_h5_43_the_fitted_length_is_advertised_served_and_enforced(server: Server) -> None:
    assert server.get("/v1/models").json()["data"][0]["max_model_len"] == ROOM

    fits = post(server, completion(prompt=[100] * (ROOM - 1), max_tokens=1))
    assert fits.json()["usage"] == {**fits.json()["usage"], "prompt_tokens": ROOM - 1, "completion_tokens": 1}

    for tokens in (ROOM, ROOM + 1, ROOM + 300):
        for changed in ({"max_tokens": 1}, {"max_tokens": None}):
            refused = post(server, completion(prompt=[100] * tokens, **changed))
            assert refused.status_code == 400
            message = refused.json()["error"]["message"]
            assert str(ROOM) in message
            assert str(tokens) in message
    assert server.get("/ready").status_code == 200


def test_h5_43_an_answer_that_would_cross_the_limit_ends_there(server: Server) -> None:
    crossing = post(server, completion(prompt=[100] * (ROOM - 20), max_tokens=100, ignore_eos=True)).json()
    assert crossing["choices"][0]["finish_reason"] == "length"
    assert crossing["usage"]["total_tokens"] == ROOM


# H5-45: a small malformed request must not produce a large, slow or leaking answer.

MALFORMED: dict[str, tuple[str, bytes | str | dict[str, Any]]] = {
    "5,000 prompts of 1 KB": ("/v1/completions", completion(prompt=[{"x": CANARY * 113}] * 5000)),
    "5,000 messages without role": (
        "/v1/chat/completions",
        {"model": MODEL, "messages": [{"bad": CANARY * 113}] * 5000},
    ),
    "5,000 contents of no kind": (
        "/v1/chat/completions",
        {"model": MODEL, "messages": [{"role": "user", "content": [{"bad": CANARY * 113}]}] * 5000},
    ),
    "5,000 response items": ("/v1/responses", {"model": MODEL, "input": [{"bad": CANARY * 113}] * 5000}),
    "5,000 response items of a known type": (
        "/v1/responses",
        {"model": MODEL, "input": [{"type": "message", "role": "user", "content": 5}] * 5000},
    ),
    "5,000 messages of another dialect": (
        "/v1/messages",
        {"model": MODEL, "max_tokens": 1, "messages": [{"role": CANARY, "content": 5}] * 5000},
    ),
    "truncated": ("/v1/completions", json.dumps(completion())[:-3]),
    "empty": ("/v1/completions", b""),
    "a list": ("/v1/completions", "[1, 2]"),
    "a string": ("/v1/completions", json.dumps(CANARY)),
    "null": ("/v1/completions", "null"),
    "NaN": ("/v1/completions", json.dumps(completion(temperature=float("nan")))),
    "Infinity": ("/v1/completions", json.dumps(completion(temperature=float("inf")))),
    "1e999": ("/v1/completions", json.dumps(completion()).replace("2}", '2, "temperature": 1e999}')),
    "not UTF-8": ("/v1/completions", b'{"prompt": "\xff\xfe' + CANARY.encode() + b'"}'),
    "half a surrogate": ("/v1/completions", json.dumps(completion(prompt=CANARY + "\ud800"))),
    "10,000 lists deep": ("/v1/completions", "[" * 10_000 + "]" * 10_000),
    "10,000 objects deep": ("/v1/completions", '{"a":' * 10_000 + "1" + "}" * 10_000),
    "10,000 deep inside a field": (
        "/v1/completions",
        json.dumps(completion()).replace("2}", '2, "metadata": ' + "[" * 10_000 + "]" * 10_000 + "}"),
    ),
    "an integer of 10,000 digits": (
        "/v1/completions",
        json.dumps(completion()).replace("2}", "2" * 10_000 + "}"),
    ),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_h5_45_malformed_bodies_get_a_short_answer_without_the_prompt(server: Server, case: str) -> None:
    path, content = MALFORMED[case]
    refusal(post(server, content, path), seconds=2)


def test_h5_45_a_body_of_50_mb_is_refused_and_not_kept(server: Server) -> None:
    before = psutil.Process(server.process.pid).memory_info().rss
    for _ in range(3):
        answer = post(server, b'{"prompt": "' + b"a" * 50_000_000 + b'"}')
        assert answer.status_code == 413
    assert psutil.Process(server.process.pid).memory_info().rss < before + (64 << 20)


WRONG: list[dict[str, Any]] = [
    {"max_tokens": 0},
    {"max_tokens": -1},
    {"max_tokens": 1.5},
    {"max_tokens": 10**12},
    {"n": 0},
    {"n": -1},
    {"n": 10**6},
    {"logprobs": 10**6},
    {"prompt_logprobs": 10**6},
    {"temperature": -1},
    {"temperature": 1e300},
    {"top_p": 0},
    {"top_p": 2},
    {"seed": 2**70},
    {"stop": [""]},
    {"stop": ["a"] * 10_000},
    {"prompt": ""},
    {"prompt": []},
    {"prompt": [-1]},
    {"prompt": [10**9]},
    {"prompt": [[1], ["a"]]},
    {"stream": "maybe"},
    {"logit_bias": {"99999999": 1}},
    {"stop_token_ids": [2**70]},
    {"allowed_token_ids": [10**9]},
    {"structured_outputs": {"json": "{"}},
]


@pytest.mark.parametrize("changed", WRONG, ids=lambda changed: str(changed)[:40])
def test_h5_45_values_out_of_range_are_refused(server: Server, changed: dict[str, Any]) -> None:
    refusal(post(server, completion(**changed)), seconds=1)


def test_h5_45_what_is_lenient_stays_in_bounds(server: Server) -> None:
    """A number in quotes is a number; null is OpenAI's 16 for completions, what is left for a chat."""
    assert completed(post(server, completion(max_tokens="3", ignore_eos=True))) == 3
    assert completed(post(server, completion(max_tokens=None, ignore_eos=True))) == 16
    message = {"role": "user", "content": "the " * (ROOM - 80)}
    chat = {"model": MODEL, "messages": [message], "max_tokens": None, "ignore_eos": True}
    answer = post(server, chat, "/v1/chat/completions")
    assert completed(answer) == ROOM - answer.json()["usage"]["prompt_tokens"]


def completed(answer: httpx.Response) -> int:
    return int(answer.json()["usage"]["completion_tokens"])


def refusal(answer: httpx.Response, seconds: float) -> None:
    assert 400 <= answer.status_code < 500
    assert len(answer.content) < MAX_BODY
    assert CANARY not in answer.text
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
    assert answer.elapsed.total_seconds() < seconds


# H5-46: echo with prompt log-probabilities while prompts are cached.


@pytest.mark.parametrize("tokens", [15, 16, 17, 33, 513])
def test_h5_46_echo_with_prompt_logprobs_twice_the_same(server: Server, tokens: int) -> None:
    prompt = random.Random(tokens).choices(range(100, 40_000), k=tokens)
    first, second = (echo(server, prompt) for _ in range(2))
    assert len(first["prompt_logprobs"]) == tokens
    assert first["prompt_logprobs"][0] is None
    assert len(first["logprobs"]["token_logprobs"]) == tokens + 2
    assert likelihoods(second) == pytest.approx(likelihoods(first), abs=1e-3)


def test_h5_46_overlapping_prompts_in_either_order(server: Server) -> None:
    shared = random.Random(1).choices(range(100, 40_000), k=64)
    short, long = shared[:48], shared + [500] * 33
    once = likelihoods(echo(server, short)), likelihoods(echo(server, long))
    again = likelihoods(echo(server, long)), likelihoods(echo(server, short))
    assert again[1] == pytest.approx(once[0], abs=1e-3)
    assert again[0] == pytest.approx(once[1], abs=1e-3)
    assert server.get("/ready").status_code == 200


def echo(server: Server, prompt: list[int]) -> dict[str, Any]:
    asked = completion(prompt=prompt, echo=True, logprobs=1, prompt_logprobs=1, temperature=0)
    answer = post(server, asked)
    assert answer.status_code == 200, answer.text
    choice: dict[str, Any] = answer.json()["choices"][0]
    return choice


def likelihoods(choice: dict[str, Any]) -> list[float]:
    """Of the prompt's own tokens, without the first, which has none."""
    found: list[float] = choice["logprobs"]["token_logprobs"][1 : len(choice["prompt_logprobs"])]
    return found
