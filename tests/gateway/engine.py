"""A stub engine: OpenAI's API at a fixed speed, with faults on demand. A real server on a real socket.

In-process: `with Engine() as engine: engine.url`. Alone: `python -m tests.gateway.engine --port 8001`.
A request's own field `fault` (or `engine.fault`) asks for one of `FAULTS`.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import re
import socket
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.ending import running

MODEL = "stub"
FAULTS = (
    "500",
    "502",
    "503",
    "stall",
    "silent",
    "cut",
    "degenerate",
    "echo",
    "slow",
    "broken",
    "zero",
    "wide",
)
"""status 500, 502 or 503; stall: stops writing half-way; silent: never a first token; cut: closes the
connection half-way; degenerate: repeats one word from half-way; echo: a 400 that quotes the prompt; slow:
ten times slower; broken: bytes that are no event; zero: usage of 0 tokens; wide:
words of 4,000 characters."""
WORDS = (
    *("the", "cache", "of", "keys", "and", "values", "is", "paged", "and", "read", "in", "place"),
    *("by", "the", "attention", "of", "every", "layer"),
)
TOKENS = 16
"""Of an answer whose request does not say."""


@dataclass
class Engine:
    """One engine. `per_token` and `first` in seconds; what it saw is in `requests`, newest last."""

    per_token: float = 0.002
    first: float = 0.002
    fault: str = ""
    name: str = MODEL
    logprob: float = -0.5
    """Of every prompt token; arms that answer alike have the same. NaN is sent as such, which is no
    JSON; vLLM answers 400 then."""
    writes: str = ""
    """Text that it writes, in pieces of a word, whatever the prompt; a continuation writes what is left."""
    stamp: bool = False
    """Writes the time of sending (monotonic, seconds) into every chunk as `sent`."""
    ready: bool = True
    """What /ready says: an engine that loads answers probes all the same."""
    pause: float = 0.0
    """Seconds that /ready takes to answer."""
    keep: int = 1000
    port: int = 0
    running: int = 0
    waiting: int = 0
    kv_usage: float = 0.0
    produced: dict[str, int] = field(default_factory=dict)
    """Tokens written, by request id."""
    requests: list[dict[str, Any]] = field(default_factory=list)
    """Path, headers and body of what came in."""
    aborted: int = 0
    """Answers whose reader left before their end."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/v1/chat/completions", self._generate, methods=["POST"]),
                Route("/v1/completions", self._generate, methods=["POST"]),
                Route("/v1/models", self._models),
                Route("/tokenize", self._tokenize, methods=["POST"]),
                Route("/health", self._alive),
                Route("/ready", self._ready),
                Route("/metrics", self._metrics),
            ]
        )

    async def _alive(self, request: Request) -> Response:
        return JSONResponse({"status": "ready"})

    async def _ready(self, request: Request) -> Response:
        await asyncio.sleep(self.pause)
        return JSONResponse({"status": "ready" if self.ready else "loading"}, 200 if self.ready else 503)

    async def _models(self, request: Request) -> Response:
        return JSONResponse(
            {"object": "list", "data": [{"id": self.name, "object": "model", "max_model_len": 8192}]}
        )

    async def _tokenize(self, request: Request) -> Response:
        body = await request.json()
        if wrong := complaint(body):
            return error(400, wrong)
        ids = tokens(prompt_of(body))
        return JSONResponse({"count": len(ids), "max_model_len": 8192, "tokens": ids})

    async def _metrics(self, request: Request) -> Response:
        label = f'{{model_name="{self.name}",engine="0"}}'
        return PlainTextResponse(
            f"vllm:num_requests_running{label} {self.running}.0\n"
            f"vllm:num_requests_waiting{label} {self.waiting}.0\n"
            f"vllm:kv_cache_usage_perc{label} {self.kv_usage}\n"
        )

    async def _generate(self, request: Request) -> Response:
        body = await request.json()
        path = request.url.path
        self.requests.append({"path": path, "headers": dict(request.headers), "body": body})
        del self.requests[: -self.keep]
        fault = body.get("fault", self.fault)
        if wrong := complaint(body):
            return error(400, wrong)
        prompt = prompt_of(body)
        if fault in ("500", "502", "503"):
            return error(int(fault), "internal failure")
        if fault == "echo":
            return error(400, f"cannot read {prompt!r}")
        if fault == "silent" and not body.get("stream"):
            await asyncio.sleep(3600)
        writing = Writing(self, request.headers.get("x-request-id", "none"), path, body, fault, prompt)
        if body.get("stream"):
            return StreamingResponse(writing.stream(), media_type="text/event-stream")
        return Response(json.dumps(await writing.whole()), media_type="application/json")

    # In a thread of its own.

    def __enter__(self) -> Engine:
        found = listening(self.port)
        self.port = found.getsockname()[1]
        self._serving = running(config(self.app()), found)
        self._serving.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        self._serving.__exit__(None, None, None)


@dataclass
class Writing:
    """One answer as it is written."""

    engine: Engine
    id: str
    path: str
    body: dict[str, Any]
    fault: str
    prompt: str

    @property
    def chat(self) -> bool:
        return self.path.endswith("chat/completions")

    @property
    def length(self) -> int:
        asked = self.body.get("max_completion_tokens") or self.body.get("max_tokens")
        return TOKENS if asked is None else int(asked)

    def words(self) -> list[str]:
        """The same for the same prompt; a continuation goes on where the text so far ends."""
        if self.engine.writes:
            return self.given()
        said = tokens(self.prompt)
        start = sum(said) % len(WORDS)
        if self.body.get("continue_final_message"):
            start = 0
        circle = itertools.cycle(WORDS[start:] + WORDS[:start])
        words = [f"{next(circle)} " for _ in range(self.length)]
        if self.fault == "wide":
            words = [word * 1000 for word in words]
        if self.fault == "degenerate":
            half = self.length // 2
            words[half:] = ["kv "] * (self.length - half)
        return words

    def given(self) -> list[str]:
        """The engine's own text, from where the prompt ends with a part of it; no more than is asked for."""
        text = self.engine.writes
        said = max((n for n in range(len(text)) if n and self.prompt.endswith(text[:n])), default=0)
        asked = self.body.get("max_completion_tokens") or self.body.get("max_tokens")
        return re.findall(r"\S*\s*", text[said:])[:-1][:asked]

    @property
    def finish(self) -> str:
        return "stop" if self.engine.writes else "length"

    def usage(self, written: int) -> dict[str, int]:
        if self.fault == "zero":
            return {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
        read = len(tokens(self.prompt))
        return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}

    async def pace(self, index: int) -> None:
        seconds = self.engine.per_token if index else self.engine.first
        await asyncio.sleep(seconds * (10 if self.fault == "slow" else 1))

    def head(self) -> dict[str, Any]:
        kind = ("chat.completion" if self.chat else "text_completion") + (
            ".chunk" if self.chat and self.body.get("stream") else ""
        )
        prefix = "chatcmpl" if self.chat else "cmpl"
        return {"id": f"{prefix}-{self.id}", "object": kind, "created": 1, "model": self.engine.name}

    async def stream(self) -> AsyncIterator[bytes]:
        engine, words = self.engine, self.words()
        head = self.head()
        engine.running += 1
        ended = False
        try:
            if self.chat:
                delta = {"role": "assistant", "content": ""}
                yield event({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
            if self.fault == "silent":
                await asyncio.sleep(3600)
            for index, word in enumerate(words):
                await self.pace(index)
                if index == len(words) // 2:
                    if self.fault == "stall":
                        await asyncio.sleep(3600)
                    if self.fault == "cut":
                        raise ConnectionAbortedError("cut on demand")
                    if self.fault == "broken":
                        yield b"data: {not json\n\n"
                engine.produced[self.id] = index + 1
                piece: dict[str, Any] = {"delta": {"content": word}} if self.chat else {"text": word}
                if self.body.get("return_token_ids"):
                    piece["token_ids"] = tokens(word)
                chunk = {**head, "choices": [{"index": 0, **piece, "finish_reason": None}]}
                if engine.stamp:
                    chunk["sent"] = time.monotonic()
                yield event(chunk)
            last: dict[str, Any] = {"delta": {}} if self.chat else {"text": ""}
            yield event({**head, "choices": [{"index": 0, **last, "finish_reason": self.finish}]})
            if (self.body.get("stream_options") or {}).get("include_usage"):
                yield event({**head, "choices": [], "usage": self.usage(len(words))})
            yield b"data: [DONE]\n\n"
            ended = True
        finally:
            engine.running -= 1
            engine.aborted += not ended

    async def whole(self) -> dict[str, Any]:
        words = self.words()
        self.engine.running += 1
        try:
            for index in range(len(words)):
                await self.pace(index)
                self.engine.produced[self.id] = index + 1
        finally:
            self.engine.running -= 1
        text = "".join(words)
        choice: dict[str, Any] = {"index": 0, "finish_reason": self.finish}
        choice |= {"message": {"role": "assistant", "content": text}} if self.chat else {"text": text}
        answer = {**self.head(), "choices": [choice], "usage": self.usage(len(words))}
        if self.body.get("return_token_ids"):
            choice["token_ids"] = tokens(text)
        # vLLM puts both on the choice of a completion, and on the answer of a chat.
        place = answer if self.chat else choice
        if self.body.get("return_token_ids"):
            place["prompt_token_ids"] = tokens(self.prompt)
        if self.body.get("prompt_logprobs") is not None:
            place["prompt_logprobs"] = self.prompt_logprobs()
        return answer

    def prompt_logprobs(self) -> list[dict[str, Any] | None]:
        count = max(1, int(self.body["prompt_logprobs"]))
        found: list[dict[str, Any] | None] = [None]
        for token in tokens(self.prompt)[1:]:
            found.append(
                {
                    str(token + offset): {
                        "logprob": self.engine.logprob - 2 * offset,
                        "rank": 1 + offset,
                        "decoded_token": f"w{token + offset}",
                    }
                    for offset in range(count)
                }
            )
        return found


def complaint(body: dict[str, Any]) -> str:
    """What a real engine would refuse; empty where there is nothing."""
    messages, prompt = body.get("messages"), body.get("prompt", "")
    if "messages" in body:
        if not isinstance(messages, list) or not all(
            isinstance(one, dict) and isinstance(one.get("content"), str | list) for one in messages
        ):
            return "messages must be a list of messages"
    elif not isinstance(prompt, str) and not (
        isinstance(prompt, list) and all(isinstance(one, int) for one in prompt)
    ):
        return "prompt must be text or token ids"
    for name in ("max_tokens", "max_completion_tokens"):
        if body.get(name) is not None and (type(body[name]) is not int or body[name] < 1):
            return f"{name} must be a positive integer"
    return ""


def prompt_of(body: dict[str, Any]) -> str:
    """All text (or tokens) of a request."""
    if "messages" in body:
        return " ".join(
            message["content"] if isinstance(message.get("content"), str) else json.dumps(message)
            for message in body["messages"]
        )
    prompt = body.get("prompt", "")
    return prompt if isinstance(prompt, str) else " ".join(f"w{token}" for token in prompt)


def tokens(text: str) -> list[int]:
    """One for each word, stable; `w123` is token 123."""
    return [
        int(word[1:]) if word[:1] == "w" and word[1:].isdigit() else sum(word.encode()) % 50_000
        for word in text.split()
    ]


def event(value: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def error(status: int, message: str) -> Response:
    kind = "BadRequestError" if status < 500 else "InternalServerError"
    return JSONResponse({"error": {"message": message, "type": kind, "param": None, "code": status}}, status)


def listening(port: int) -> socket.socket:
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    found.bind(("127.0.0.1", port))
    found.listen(4096)  # who knows the address may connect, even before anybody accepts
    return found


def config(app: Starlette) -> uvicorn.Config:
    return uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", backlog=4096)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--per-token", type=float, default=0.02, help="seconds")
    parser.add_argument("--first", type=float, default=0.05, help="seconds")
    parser.add_argument("--fault", default="", choices=("", *FAULTS))
    parser.add_argument("--name", default=MODEL)
    parser.add_argument("--stamp", action="store_true")
    asked = parser.parse_args()
    engine = Engine(asked.per_token, asked.first, asked.fault, asked.name, stamp=asked.stamp)
    found = listening(asked.port)
    print(f"http://127.0.0.1:{found.getsockname()[1]}", flush=True)
    uvicorn.Server(config(engine.app())).run([found])


if __name__ == "__main__":
    main()
