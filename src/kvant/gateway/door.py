"""The way in: who may, with what, and what they hear if not. Cheapest checks first."""

from __future__ import annotations

import asyncio
import logging
import re
import time
import uuid
from collections.abc import Mapping
from typing import Any

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from kvant.gateway import outgoing, probes, prompt, trace
from kvant.gateway.call import Call, Served
from kvant.gateway.cast import Cast
from kvant.gateway.proxy.backend import Backend
from kvant.gateway.proxy.exchange import Exchange
from kvant.gateway.proxy.passing import passed
from kvant.gateway.proxy.reply import Reply
from kvant.gateway.settings import GatewaySettings
from kvant.http import body, envelope
from kvant.http.body import Gone, Refused
from kvant.http.state import State

access = logging.getLogger("kvant.access")

GENERATES = ("/v1/chat/completions", "/v1/completions")
PASSED = {"/v1/models": "GET", "/v1/embeddings": "POST", "/tokenize": "POST", "/detokenize": "POST"}
"""What is passed to the baseline as it is."""
REQUEST_ID = re.compile(r"[\w.:-]{1,128}", re.ASCII)

CUT_SECONDS = 2.0
"""For calls that are cut to say so."""


class Door:
    """The ASGI app of the gateway."""

    def __init__(
        self, settings: GatewaySettings, backend: Backend, cast: Cast, mounts: Mapping[str, ASGIApp]
    ) -> None:
        self.state = State()
        self._settings = settings
        self._backend = backend
        self._cast = cast
        self._mounts = mounts
        self._running: set[Exchange] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        if scope["type"] != "http":
            return
        for prefix, app in self._mounts.items():
            if scope["path"] == prefix or scope["path"].startswith(prefix + "/"):
                await app(scope, receive, send)
                return
        headers = Headers(scope=scope)
        call_id = uuid.uuid4().hex
        given = headers.get("x-request-id", "")
        reply = Reply(send, {"x-request-id": given if REQUEST_ID.fullmatch(given) else call_id})
        response = self._own(scope["path"])
        if response is not None:
            await response(scope, receive, send)
            return
        try:
            await self._admit(scope, headers, receive, reply, call_id)
        except Refused as refused:
            await reply.refuse(refused.refusal)
        except Gone:
            return

    def _own(self, path: str) -> Response | None:
        """The answers that need no arm."""
        if path == "/health":
            return probes.health()
        if path == "/ready":
            return probes.ready(self.state, self._backend.arms)
        return None

    async def _admit(
        self, scope: Scope, headers: Headers, receive: Receive, reply: Reply, call_id: str
    ) -> None:
        path, method = scope["path"], scope["method"]
        if path not in GENERATES and path not in PASSED:
            raise Refused(envelope.not_found(path))
        if method != PASSED.get(path, "POST"):
            raise Refused(envelope.wrong_method(method, path))
        if refusal := self.state.refusal():
            raise Refused(refusal)
        content = await body.read(headers, receive) if method == "POST" else None
        parsed = body.check(content) if content is not None else {}
        onward = {
            "x-request-id": call_id,
            **trace.onward(headers.get("traceparent"), headers.get("tracestate")),
        }
        if path in PASSED:
            await passed(self._backend, method, path, content, onward, reply, call_id)
            return
        call = self._call(call_id, path, parsed, headers, key="")
        await self._serve(call, receive, reply, onward, outgoing.wants_usage(parsed))

    def _call(self, call_id: str, path: str, parsed: dict[str, Any], headers: Headers, key: str) -> Call:
        return Call(
            id=call_id,
            path=path,
            body=outgoing.body(parsed, key),
            key=key,
            sticky=prompt.conversation(parsed, key, headers.get("x-session-id", "")),
            at=time.monotonic(),
        )

    async def _serve(
        self, call: Call, receive: Receive, reply: Reply, onward: Mapping[str, str], usage: bool
    ) -> Served:
        arm = self._cast.choose(call)
        self._cast.began(call, arm)
        exchange = Exchange(self._backend, self._cast, call, reply, onward)
        self._running.add(exchange)
        try:
            served = await exchange.run(receive, arm, usage)
        finally:
            self._running.discard(exchange)
        self._cast.ended(served)
        return served

    async def drain(self, seconds: float, insisted: asyncio.Event) -> None:
        """Lets running calls finish for so long, or until insisted, then cuts them."""
        self.state = self.state.drain()
        hurry = asyncio.ensure_future(insisted.wait())
        end = time.monotonic() + seconds
        while self._running and time.monotonic() < end and not hurry.done():
            await asyncio.wait({hurry}, timeout=0.05)
        hurry.cancel()
        for exchange in tuple(self._running):
            exchange.cut("draining")
        end = time.monotonic() + CUT_SECONDS
        while self._running and time.monotonic() < end:
            await asyncio.sleep(0.02)
