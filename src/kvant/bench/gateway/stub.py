"""An engine that only keeps time: streams tokens at a fixed speed, each with the moment it was sent.

Its stream is that of an OpenAI-compatible engine, so any proxy takes it for one; the moment stands in the
text, which every proxy passes on. Run by `python -m kvant.bench.gateway.stub PORT SECONDS_PER_TOKEN`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

from starlette.types import Receive, Scope, Send

MODEL = "stub"
_HEAD = (
    '{"id":"chatcmpl-0","object":"chat.completion.chunk","created":1,"model":"stub","choices":[{"index":0,'
)


class Stub:
    """The ASGI app. Asked for `max_tokens` tokens it sends as many."""

    def __init__(self, per_token: float) -> None:
        self._per_token = per_token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if scope["method"] != "POST":
            models = {"object": "list", "data": [{"id": MODEL, "object": "model"}]}
            await _answer(send, "application/json", json.dumps(models).encode())
            return
        content = b""
        while True:
            message = await receive()
            content += message.get("body", b"")
            if not message.get("more_body"):
                break
        await self._stream(json.loads(content), send)

    async def _stream(self, body: dict[str, Any], send: Send) -> None:
        await send(_start("text/event-stream"))
        tokens = int(body.get("max_tokens") or 16)
        due = time.monotonic()
        for _ in range(tokens):
            due += self._per_token
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            text = f'{_HEAD}"delta":{{"content":"{time.monotonic():.6f} "}},"finish_reason":null}}]}}'
            await send(_body(f"data: {text}\n\n", True))
        last = f'data: {_HEAD}"delta":{{}},"finish_reason":"length"}}]}}\n\n'
        if (body.get("stream_options") or {}).get("include_usage"):
            usage = {"prompt_tokens": 1, "completion_tokens": tokens, "total_tokens": tokens + 1}
            head = {"id": "chatcmpl-0", "object": "chat.completion.chunk", "created": 1, "model": MODEL}
            last += f"data: {json.dumps({**head, 'choices': [], 'usage': usage})}\n\n"
        await send(_body(last + "data: [DONE]\n\n", False))


def _start(kind: str) -> dict[str, Any]:
    return {"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind.encode())]}


def _body(text: str, more: bool) -> dict[str, Any]:
    return {"type": "http.response.body", "body": text.encode(), "more_body": more}


async def _answer(send: Send, kind: str, content: bytes) -> None:
    await send(_start(kind))
    await send({"type": "http.response.body", "body": content, "more_body": False})


def main(port: str, per_token: str) -> None:
    import uvicorn
    import uvloop

    config = uvicorn.Config(
        Stub(float(per_token)),
        port=int(port),
        log_config=None,
        access_log=False,
        lifespan="off",
        backlog=4096,
    )
    uvloop.run(uvicorn.Server(config).serve())


if __name__ == "__main__":
    main(*sys.argv[1:])
