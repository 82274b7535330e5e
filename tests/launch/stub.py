"""A tiny OpenAI-compatible server over real HTTP, wrong in one way on request, as no sound engine is."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from kvant.launch.service import Service
from tests.ending import running
from tests.launch import recorded

WORDS = ["red", "green", "blue", "white", "black", "brown", "grey", "pink", "gold", "lime", "teal", "navy"]


class Stub:
    """`fault` is one of the names that the tests use; "" is sound. `seen` are the paths that were asked."""

    def __init__(self, fault: str = "", metrics: str = recorded.TEXT, key: str = "") -> None:
        self.fault, self.metrics, self.key = fault, metrics, key
        self.seen: list[str] = []

    def app(self) -> Starlette:
        paths = {
            "/health": self._health,
            "/ready": self._ready,
            "/metrics": self._metrics,
            "/v1/models": self._models,
            "/v1/completions": self._answer,
            "/v1/chat/completions": self._answer,
        }
        return Starlette(routes=[Route(p, f, methods=["GET", "POST"]) for p, f in paths.items()])

    async def _health(self, request: Request) -> Response:
        return JSONResponse({"status": "alive"})

    async def _ready(self, request: Request) -> Response:
        if self.fault == "not ready":
            return JSONResponse({"status": "failed", "reason": "the engine has died"}, 503)
        if self.fault == "page":
            return PlainTextResponse("please log in")
        return JSONResponse({"status": "ready", "formats": "trellis4/trellis4"})

    async def _metrics(self, request: Request) -> Response:
        return PlainTextResponse(self.metrics)

    async def _models(self, request: Request) -> Response:
        if self.key and request.headers.get("authorization") != f"Bearer {self.key}":
            return _error("no key", 401)
        return JSONResponse({"data": [{"id": "m", "max_model_len": 2048}]})

    async def _answer(self, request: Request) -> Response:
        self.seen.append(request.url.path)
        body: dict[str, Any] = await request.json()
        chat = "messages" in body
        if body.get("model") != "m":
            return _error("no such model", 404)
        if body.get("max_tokens", 0) < 0 or not (chat or "prompt" in body):
            return PlainTextResponse("wrong", 400) if self.fault == "envelope" else _error("wrong", 400)
        words = WORDS[: body["max_tokens"]]
        stopped = [n for n, word in enumerate(words) if word in (body.get("stop") or ())]
        if stopped and self.fault != "stop":
            words = words[: stopped[0]]
        finish = "stop" if stopped and self.fault != "stop" else "length"
        if body.get("stream"):
            return StreamingResponse(self._chunks(words, finish, body, chat), media_type="text/event-stream")
        text = " ".join(words)
        choice = {"message": {"content": text}} if chat else {"text": text}
        return JSONResponse({"choices": [choice | {"finish_reason": finish}], "usage": self._usage(words)})

    async def _chunks(
        self, words: list[str], finish: str, body: dict[str, Any], chat: bool
    ) -> AsyncIterator[str]:
        for n, word in enumerate(words):
            part: dict[str, Any] = {"delta": {"content": word}} if chat else {"text": word, "token_ids": [n]}
            part |= {"finish_reason": finish if n == len(words) - 1 else None}
            yield f"data: {json.dumps({'choices': [part]})}\n\n"
        if (body.get("stream_options") or {}).get("include_usage") and self.fault != "usage":
            yield f"data: {json.dumps({'choices': [], 'usage': self._usage(words)})}\n\n"
        if self.fault != "done":
            yield "data: [DONE]\n\n"

    def _usage(self, words: list[str]) -> dict[str, int]:
        return {"prompt_tokens": 4, "completion_tokens": len(words), "total_tokens": 4 + len(words)}


def _error(message: str, status: int) -> Response:
    return JSONResponse({"error": {"message": message, "type": "x", "code": status}}, status)


@contextmanager
def serving(stub: Stub) -> Iterator[Service]:
    with listening(stub.app()) as url:
        yield Service(url, "m", 2048, f"{url}/metrics", stub.key)


@contextmanager
def listening(app: Any) -> Iterator[str]:
    """Any ASGI app on a free port of loopback, in a thread."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(app, log_level="error", lifespan="off")
        with running(config, listener):
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
