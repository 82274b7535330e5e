"""The door in front of vLLM's app: who may come in, how many, how long, and what they hear if not.

One ASGI app owns the socket for the whole life of the process, so that probes answer while the engine
loads and new requests are told to go elsewhere while it drains.
"""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
import uuid
from collections.abc import Callable
from typing import Any

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from kvant.config import Settings
from kvant.engine import probes
from kvant.engine.exchange import Exchange, tagged
from kvant.engine.keys import Keys
from kvant.engine.limits import Slots
from kvant.engine.verify import EngineReport
from kvant.http import body, envelope
from kvant.http.body import Gone, Refused
from kvant.http.envelope import Refusal
from kvant.http.request import plain, sound_id
from kvant.http.state import State
from kvant.telemetry.metrics import Metrics

access = logging.getLogger("kvant.access")
log = logging.getLogger("kvant.server")

SERVED = ("/tokenize", "/detokenize", "/version", "/docs", "/openapi.json")
"""What of vLLM's app is reached besides /v1: its administrative routes are not."""

ABORT_SECONDS = 5.0
"""How long a cut request may take to notice that its client is gone."""

BodyCheck = Callable[[str, dict[str, Any]], None]


class Door:
    """The ASGI app of the service. `open` puts vLLM's app behind it; until then it answers 503."""

    def __init__(self, settings: Settings, keys: Keys, metrics: Metrics) -> None:
        self.state = State()
        self.report: EngineReport | None = None
        self.metrics = metrics
        self.slots = Slots(settings.serving.max_concurrency)
        self._timeout = settings.serving.timeout
        self._metrics_here = settings.monitoring.metrics_port is None
        self._keys = keys
        self._app: ASGIApp | None = None
        self._check: BodyCheck = lambda path, parsed: None
        self._running: set[Exchange] = set()
        self.begun = 0
        """Requests that went to the engine."""

    def open(self, app: ASGIApp, report: EngineReport, check: BodyCheck) -> None:
        """From now on requests are served; `check` raises `Refused` for bodies the app is to be spared."""
        self._app, self.report, self._check = app, report, check
        self.become(self.state.up())

    def become(self, state: State) -> None:
        self.state = state
        self.metrics.ready.set(state.ready)

    async def cut_all(self, refusal: Refusal) -> None:
        """Ends every running request with this refusal."""
        await asyncio.gather(*(exchange.cut(refusal) for exchange in tuple(self._running)))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)
        request_id = sound_id(headers.get("x-request-id")) or uuid.uuid4().hex
        began, status = time.monotonic(), [499]
        try:
            await self._answer(
                scope,
                headers,
                receive,
                tagged(send, request_id, status.append),
                request_id,
            )
        finally:
            # The path without its query: whatever a client puts there stays out of the log.
            level = logging.DEBUG if scope["path"] in ("/health", "/ready", "/metrics") else logging.INFO
            elapsed = time.monotonic() - began
            access.log(
                level,
                "%s %s %d %.3fs %s",
                scope["method"],
                plain(scope["path"]),
                status[-1],
                elapsed,
                request_id,
            )

    async def _answer(
        self, scope: Scope, headers: Headers, receive: Receive, send: Send, request_id: str
    ) -> None:
        response = self._own(scope["path"], headers)
        if response is None:
            try:
                await self._admit(scope, headers, receive, send, request_id)
            except Refused as refused:
                self.metrics.rejected.labels(refused.refusal.reason).inc()
                response = refused.refusal.response()
            except Gone:
                return
        if response is not None:
            await response(scope, receive, send)

    def _own(self, path: str, headers: Headers) -> Response | None:
        """The answers that need no engine."""
        if path == "/health":
            return probes.health()
        if path == "/ready":
            return probes.ready(self.state, self.report)
        if path == "/metrics" and self._metrics_here:
            if not self._keys.admit(headers.get("authorization")):
                return envelope.unauthorised().response()
            return probes.metrics(self.metrics)
        return None

    async def _admit(
        self, scope: Scope, headers: Headers, receive: Receive, send: Send, request_id: str
    ) -> None:
        """Check by check, cheapest first; then through vLLM's app."""
        path, method = scope["path"], scope["method"]
        if not (path.startswith("/v1/") or path in SERVED):
            raise Refused(envelope.not_found(path))
        if method != "OPTIONS" and not self._keys.admit(headers.get("authorization")):
            raise Refused(envelope.unauthorised())
        if refusal := self.state.refusal():
            raise Refused(refusal)
        if method != "POST":
            await self._pass(Exchange(scope, b"", receive, send, request_id), scope, request_id)
            return
        with self.slots.taken():
            content = await body.read(headers, receive)
            if headers.get("content-type", "").lower().startswith("application/json"):
                self._check(path, body.check(content))
            exchange = Exchange(scope, content, receive, send, request_id)
            self._running.add(exchange)
            self.begun += 1
            self.metrics.inflight.set(self.slots.used)
            try:
                await self._pass(exchange, scope, request_id)
            finally:
                self._running.discard(exchange)
                self.metrics.inflight.set(self.slots.used - 1)

    async def _pass(self, exchange: Exchange, scope: Scope, request_id: str) -> None:
        assert self._app is not None
        # Under 2.4 Starlette would wait for a failing send instead of listening for the disconnect.
        inner = {
            **scope,
            "asgi": {**scope["asgi"], "spec_version": "2.3"},
            "headers": _with_id(scope, request_id),
        }
        task = asyncio.ensure_future(self._app(inner, exchange.receive, exchange.send))
        try:
            done, _ = await asyncio.wait({task}, timeout=self._timeout)
            if not done:
                self.metrics.rejected.labels("timeout").inc()
                await exchange.cut(envelope.timed_out(self._timeout))
                await asyncio.wait({task}, timeout=ABORT_SECONDS)
        finally:
            task.cancel()
        if task.done() and not task.cancelled() and (error := task.exception()):
            # Neither the message nor the locals: they may hold the prompt.
            frames = "".join(traceback.format_tb(error.__traceback__))
            log.error("request %s failed with %s\n%s", request_id, type(error).__name__, frames)
            await exchange.cut(envelope.internal(request_id))


def _with_id(scope: Scope, request_id: str) -> list[tuple[bytes, bytes]]:
    others = [(name, value) for name, value in scope["headers"] if name != b"x-request-id"]
    return [*others, (b"x-request-id", request_id.encode())]
