"""What a client of the OpenAI library gets from a packed cache: the same as from any other server."""

from __future__ import annotations

import itertools
import json
import time

import httpx
import openai
import pytest

from tests.e2e.fixtures import ROOM
from tests.e2e.server import MODEL, Server
from tests.e2e.ties import part_only_at_a_tie

QUESTION = [{"role": "user", "content": "Name three colours of the rainbow."}]
STORY = "Once upon a time, in a small village by the sea, there lived"


def test_models_names_the_model_and_the_context_that_fits(server: Server) -> None:
    (model,) = server.client().models.list().data
    assert model.id == MODEL
    assert model.model_dump()["max_model_len"] == ROOM


def test_chat_is_deterministic_and_counts_its_tokens(server: Server) -> None:
    client = server.client()
    answers = [
        client.chat.completions.create(model=MODEL, messages=QUESTION, temperature=0, max_tokens=24)
        for _ in range(3)
    ]
    # The first one computed its prompt in one matrix product of another shape: bf16 may round elsewhere.
    _, first, second = (answer.choices[0] for answer in answers)
    assert first.message.content
    assert first.message.content == second.message.content
    usage = answers[1].usage
    assert 1 <= usage.completion_tokens <= 24
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert first.finish_reason == ("length" if usage.completion_tokens == 24 else "stop")


def test_completion_writes_as_much_as_asked(server: Server) -> None:
    answer = server.client().completions.create(
        model=MODEL, prompt=STORY, temperature=0, max_tokens=16, extra_body={"ignore_eos": True}
    )
    assert answer.choices[0].text.strip()
    assert answer.usage.completion_tokens == 16
    assert answer.choices[0].finish_reason == "length"


def test_a_streamed_chat_is_the_whole_chat(server: Server) -> None:
    client = server.client()
    asked = {"model": MODEL, "messages": QUESTION, "temperature": 0, "max_tokens": 24}
    whole = client.chat.completions.create(**asked)
    pieces = list(
        client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True})
    )
    text = "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)
    assert text == whole.choices[0].message.content
    reasons = [piece.choices[0].finish_reason for piece in pieces if piece.choices]
    assert reasons[-1] == whole.choices[0].finish_reason
    assert not any(reasons[:-1])
    assert pieces[-1].usage.model_dump(exclude={"prompt_tokens_details"}) == whole.usage.model_dump(
        exclude={"prompt_tokens_details"}
    )


def test_a_streamed_completion_is_the_whole_completion_and_ends_with_done(server: Server) -> None:
    asked = {"model": MODEL, "prompt": STORY, "temperature": 0, "max_tokens": 24}
    whole = server.client().completions.create(**asked).choices[0].text
    lines = []
    with httpx.stream(
        "POST", f"{server.url}/v1/completions", json={**asked, "stream": True}, timeout=60
    ) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = [line.removeprefix("data: ") for line in answer.iter_lines() if line]
    assert lines[-1] == "[DONE]"
    assert "".join(json.loads(line)["choices"][0]["text"] for line in lines[:-1]) == whole


def test_log_probabilities(server: Server) -> None:
    answer = server.client().chat.completions.create(
        model=MODEL, messages=QUESTION, temperature=0, max_tokens=6, logprobs=True, top_logprobs=3
    )
    entries = answer.choices[0].logprobs.content
    assert len(entries) == answer.usage.completion_tokens
    for entry in entries:
        assert entry.logprob <= 0
        assert len(entry.top_logprobs) >= 3
        assert entry.logprob == max(other.logprob for other in entry.top_logprobs)


def test_two_choices_of_one_prompt(server: Server) -> None:
    answer = server.client().chat.completions.create(
        model=MODEL, messages=QUESTION, temperature=1.0, seed=7, max_tokens=24, n=2
    )
    assert [choice.index for choice in answer.choices] == [0, 1]
    first, second = (choice.message.content for choice in answer.choices)
    assert first != second


def test_the_prompt_cache_serves_a_repeated_prompt_and_says_so(server: Server) -> None:
    asked = {
        "model": MODEL,
        "prompt": "The tide comes in and goes out again. " * 30,
        "temperature": 0,
        "max_tokens": 16,
        "logprobs": 5,
        "extra_body": {"ignore_eos": True},
    }
    client = server.client()
    cold, warm = client.completions.create(**asked), client.completions.create(**asked)
    assert warm.usage.prompt_tokens_details.cached_tokens >= 192
    assert part_only_at_a_tie(cold.choices[0], warm.choices[0])


def test_requests_of_different_lengths_in_one_batch_answer_as_alone(server: Server) -> None:
    client = server.client(timeout=300)
    prompts = ["A cat", "The history of bread begins " * 20, "1 2 3 4 5 6 7 8 9 10", STORY]
    exactly = {"ignore_eos": True}
    asked = {"model": MODEL, "temperature": 0, "max_tokens": 8, "logprobs": 5, "extra_body": exactly}
    alone = [client.completions.create(prompt=prompt, **asked).choices[0] for prompt in prompts]
    together = client.completions.create(prompt=prompts, **asked).choices
    assert [
        one.text for one, other in zip(alone, together, strict=True) if not part_only_at_a_tie(one, other)
    ] == []


@pytest.mark.parametrize("extra", [1, 300])
def test_a_prompt_that_is_too_long_is_refused_with_both_numbers(server: Server, extra: int) -> None:
    began = time.monotonic()
    with pytest.raises(openai.BadRequestError) as refused:
        server.client().completions.create(model=MODEL, prompt=[100] * (ROOM + extra), max_tokens=1)
    assert time.monotonic() - began < 5
    assert str(ROOM) in refused.value.message
    assert str(ROOM + extra) in refused.value.message
    assert server.get("/ready").status_code == 200


def test_the_request_id_comes_back(server: Server) -> None:
    answer = httpx.post(f"{server.url}/v1/completions", json={}, headers={"x-request-id": "trace-1:a.b"})
    assert answer.headers["x-request-id"] == "trace-1:a.b"
    forged = server.get("/v1/models", headers={"x-request-id": "x" * 500}).headers["x-request-id"]
    assert len(forged) == 32
    own = {server.get("/v1/models").headers["x-request-id"] for _ in range(2)}
    assert len(own) == 2


def test_one_request_id_for_two_requests_at_once(server: Server) -> None:
    client = server.client(default_headers={"x-request-id": "twin"})
    asked = {"model": MODEL, "temperature": 0, "max_tokens": 12, "stream": True}
    numbers, letters = "1, 2, 3, 4, 5, 6, 7, 8, 9,", "A, B, C, D, E, F, G,"
    streams = [client.completions.create(prompt=prompt, **asked) for prompt in (numbers, letters)]
    texts = ["", ""]
    for pieces in itertools.zip_longest(*streams):
        for n, piece in enumerate(pieces):
            texts[n] += piece.choices[0].text if piece is not None else ""
    assert texts[0].startswith(" 10, 11")
    assert texts[1].startswith(" H, I")


@pytest.mark.parametrize("path", ["/invocations", "/scale_elastic_ep", "/pooling", "/nothing", "/v1/nothing"])
def test_what_is_not_served_is_not_found(server: Server, path: str) -> None:
    answer = httpx.post(server.url + path, json={})
    assert answer.status_code == 404
    assert answer.json()["error"]["type"] == "NotFoundError"
