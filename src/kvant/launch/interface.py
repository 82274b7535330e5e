"""Step 1: does it speak as its clients expect? One request for each thing a client relies on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import httpx

from kvant.errors import EngineError
from kvant.launch.result import Item, Step, Verdict, verdict
from kvant.launch.service import Service

NAME = "interface"
TOKENS = 12
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
ASKED = "Name three colours."


class Wrong(Exception):
    """The answer is not as it must be; the message says how."""


Look = Callable[[Service], str]
"""Returns what was found; raises `Wrong`."""


def run(service: Service, keyed: bool) -> Step:
    """`keyed`: the configuration asks for an API key."""
    items = [_look(name, look, service) for name, look in LOOKS.items()]
    return Step(NAME, [*items, _auth(service, keyed)])


def _look(name: str, look: Look, service: Service) -> Item:
    try:
        return Item(name, Verdict.PASS, look(service))
    except (Wrong, EngineError) as wrong:
        return Item(name, Verdict.FAIL, str(wrong))
    except (KeyError, TypeError, IndexError, AttributeError, ValueError) as wrong:
        return Item(name, Verdict.FAIL, f"the answer lacks what it must have: {type(wrong).__name__} {wrong}")


def _health(service: Service) -> str:
    return f"status {_ok(service.get('/health')).status_code}"


def _ready(service: Service) -> str:
    status, body = service.ready()
    if status != 200:
        raise Wrong(f"status {status}: {body.get('reason', 'gives no reason')}")
    if body.get("status") != "ready":  # a page that answers 200 to everything is not ready
        raise Wrong("status 200, and its body does not say that it is ready")
    return str(body.get("formats", "ready"))


def _models(service: Service) -> str:
    return ", ".join(one["id"] for one in _ok(service.get("/v1/models")).json()["data"])


def _chat(service: Service) -> str:
    found = _ok(service.post(CHAT, _chat_body(service))).json()
    text = found["choices"][0]["message"]["content"]
    return _said(text, found["choices"][0]["finish_reason"])


def _chat_stream(service: Service) -> str:
    chunks = _stream(service, CHAT, _chat_body(service))
    text = "".join(c["delta"].get("content") or "" for one in chunks for c in one["choices"])
    finish = [c["finish_reason"] for one in chunks for c in one["choices"] if c.get("finish_reason")]
    return _said(text, finish[-1] if finish else None)


def _completions(service: Service) -> str:
    (choice,) = _ok(service.post(COMPLETIONS, _body(service))).json()["choices"]
    return _said(choice["text"], choice["finish_reason"])


def _completions_stream(service: Service) -> str:
    """What is streamed is what is answered in one piece."""
    chunks = _stream(service, COMPLETIONS, _body(service))
    text = "".join(c["text"] for one in chunks for c in one["choices"])
    finish = [c["finish_reason"] for one in chunks for c in one["choices"] if c.get("finish_reason")]
    return _said(text, finish[-1] if finish else None)


def _usage(service: Service) -> str:
    plain = _ok(service.post(COMPLETIONS, _body(service))).json()["usage"]
    asked = _body(service) | {"stream_options": {"include_usage": True}}
    streamed = [one["usage"] for one in _stream(service, COMPLETIONS, asked) if one.get("usage")]
    if not streamed:
        raise Wrong("stream_options.include_usage: no chunk has usage")
    for one in (plain, streamed[-1]):
        if one["completion_tokens"] != TOKENS or one["prompt_tokens"] < 1:
            raise Wrong(f"usage says {one}, {TOKENS} tokens were asked for")
        if one["total_tokens"] != one["prompt_tokens"] + one["completion_tokens"]:
            raise Wrong(f"usage does not add up: {one}")
    return f"{plain['prompt_tokens']} + {plain['completion_tokens']} tokens, streamed and not"


def _stop(service: Service) -> str:
    """The text without `stop` names a string that must then end it."""
    text = _ok(service.post(COMPLETIONS, _body(service))).json()["choices"][0]["text"]
    word = next((word for word in text.split()[1:] if text.count(word) == 1), "")
    if not word:
        raise Wrong(f"cannot be tried: {text!r} has no word that stands once")
    (choice,) = _ok(service.post(COMPLETIONS, _body(service) | {"stop": [word]})).json()["choices"]
    if word in choice["text"] or choice["finish_reason"] != "stop":
        raise Wrong(
            f"stop {word!r}: the answer is {choice['text']!r}, finish_reason {choice['finish_reason']!r}"
        )
    return f"ends before {word!r}"


def _envelope(service: Service) -> str:
    """Errors have the form that OpenAI's clients read."""
    wrong = {
        "an unknown model": (_body(service) | {"model": "no-such-model"}, (404,)),
        "a negative max_tokens": (_body(service) | {"max_tokens": -1}, (400, 422)),
        "a missing prompt": ({"model": service.model}, (400, 422)),
    }
    for what, (body, statuses) in wrong.items():
        answer = service.post(COMPLETIONS, body)
        if answer.status_code not in statuses:
            raise Wrong(f"{what} is answered {answer.status_code}")
        if not str(answer.json()["error"]["message"]):
            raise Wrong(f"{what}: the error has no message")
    return f"{', '.join(wrong)}: refused in OpenAI's envelope"


LOOKS: Mapping[str, Look] = {
    "/health": _health,
    "/ready": _ready,
    "/v1/models": _models,
    "chat": _chat,
    "chat, streamed": _chat_stream,
    "completions": _completions,
    "completions, streamed": _completions_stream,
    "usage": _usage,
    "stop strings": _stop,
    "errors": _envelope,
}


def _auth(service: Service, keyed: bool) -> Item:
    """Who has no key must be refused; without keys, only this machine may connect."""
    name = "authorisation"
    if not keyed and not service.key:
        said = f"no key is asked for, and {service.url} is "
        return Item(name, verdict(service.local), said + ("loopback" if service.local else "not loopback"))
    try:
        given = [
            service.get("/v1/models", headers=headers).status_code
            for headers in ({}, {"authorization": "Bearer not-a-key-of-yours"})
        ]
    except EngineError as error:
        return Item(name, Verdict.FAIL, str(error))
    found = f"without a key {given[0]}, with a wrong one {given[1]}"
    return Item(name, verdict(given == [401, 401]), found, "401")


def _body(service: Service) -> dict[str, Any]:
    return {
        "model": service.model,
        "prompt": ASKED,
        "max_tokens": TOKENS,
        "temperature": 0,
        "ignore_eos": True,
    }


def _chat_body(service: Service) -> dict[str, Any]:
    messages = [{"role": "user", "content": ASKED}]
    return {"model": service.model, "messages": messages, "max_tokens": TOKENS, "temperature": 0}


def _ok(answer: httpx.Response) -> httpx.Response:
    if answer.status_code != 200:
        raise Wrong(f"status {answer.status_code}: {answer.text[:200]}")
    return answer


def _stream(service: Service, path: str, body: Mapping[str, Any]) -> list[Any]:
    """The chunks of an answer that ends in [DONE]."""
    answer = _ok(service.post(path, {**body, "stream": True}))
    if not answer.headers.get("content-type", "").startswith("text/event-stream"):
        raise Wrong(f"content-type is {answer.headers.get('content-type')}")
    events = list(_events(answer.text))
    if not events or events[-1] != "[DONE]":
        raise Wrong("the stream does not end in [DONE]")
    return [json.loads(event) for event in events[:-1]]


def _events(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if line.startswith("data: "):
            yield line.removeprefix("data: ")


def _said(text: str | None, finish: str | None) -> str:
    if not text or finish not in ("stop", "length"):
        raise Wrong(f"the answer is {text!r}, finish_reason {finish!r}")
    return f"{len(text)} characters, {finish}"
