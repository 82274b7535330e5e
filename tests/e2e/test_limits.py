"""Keys, concurrency and time: who is refused, how, and that a refusal costs nobody else anything."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import openai
import pytest

from tests.e2e.fixtures import KEY, STRICT_TIMEOUT
from tests.e2e.server import MODEL, Server, until

LONG = {"model": MODEL, "prompt": "Count: 1, 2, 3,", "max_tokens": 1900, "extra_body": {"ignore_eos": True}}


@pytest.mark.parametrize("key", ["wrong", KEY[:-1], KEY + "x", "# accepted keys"])
def test_a_wrong_key_is_refused(strict: Server, key: str) -> None:
    with pytest.raises(openai.AuthenticationError) as refused:
        strict.client(key).models.list()
    assert refused.value.body["type"] == "AuthenticationError"
    assert refused.value.response.headers["www-authenticate"] == "Bearer"


def test_every_key_of_the_file_opens_and_probes_need_none(strict: Server) -> None:
    for key in (KEY, "other-key"):
        assert strict.client(key).models.list().data
    for path in ("/health", "/ready"):
        assert strict.get(path).status_code == 200
    for path in ("/v1/models", "/version", "/docs", "/openapi.json"):
        assert strict.get(path).status_code == 401


def test_more_requests_than_allowed_are_told_to_come_back(strict: Server) -> None:
    client = strict.client(KEY)
    streams = [client.completions.create(**LONG, stream=True) for _ in range(2)]
    try:
        with pytest.raises(openai.RateLimitError) as refused:
            client.completions.create(model=MODEL, prompt="a", max_tokens=1)
        assert int(refused.value.response.headers["retry-after"]) >= 1
        assert "serving.max_concurrency" in refused.value.message
        assert client.models.list().data, "what needs no engine is still answered"
    finally:
        for stream in streams:
            stream.close()
    answer = until(lambda: _answer(client), 10, lambda: "the slots of closed streams were not given back")
    assert answer.usage.completion_tokens == 1


def _answer(client: openai.OpenAI) -> openai.types.Completion | None:
    try:
        return client.completions.create(model=MODEL, prompt="a", max_tokens=1)
    except openai.RateLimitError:
        return None


def test_what_is_over_its_time_ends_with_504_or_an_error_event_and_frees_the_engine(strict: Server) -> None:
    """A whole answer and a stream at once: both take the time to the end."""
    with ThreadPoolExecutor(1) as beside:
        streamed = beside.submit(_streamed, strict)
        began = time.monotonic()
        with pytest.raises(openai.InternalServerError) as refused:
            strict.client(KEY).completions.create(**LONG)
        assert refused.value.status_code == 504
        assert "serving.timeout" in refused.value.message
        assert STRICT_TIMEOUT <= time.monotonic() - began < STRICT_TIMEOUT + 4
        events = streamed.result()
    assert events[-1] == "[DONE]"
    assert json.loads(events[-2])["error"]["code"] == 504
    assert len(events) > 5, "tokens came before the error"
    _idle(strict)


def _streamed(server: Server) -> list[str]:
    body = {**LONG, **LONG["extra_body"], "stream": True}
    body.pop("extra_body")
    headers = {"Authorization": f"Bearer {KEY}"}
    with httpx.stream(
        "POST", f"{server.url}/v1/completions", json=body, headers=headers, timeout=30
    ) as answer:
        return [line.removeprefix("data: ") for line in answer.iter_lines() if line]


def _idle(server: Server) -> None:
    """The engine has nothing left to do: a request right now is answered at once."""
    results: list[float] = []

    def ask() -> None:
        began = time.monotonic()
        server.client(KEY).completions.create(model=MODEL, prompt="a", max_tokens=1)
        results.append(time.monotonic() - began)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 2
    assert max(results) < STRICT_TIMEOUT / 2
