"""The way in: who may, with what, and what they hear if not. Cheapest checks first."""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from kvant.gateway import intake, openapi, outgoing, probes, steered, trace
from kvant.gateway.admission.addresses import AllowList
from kvant.gateway.admission.line import Line
from kvant.gateway.admission.quotas import Grant, Quotas
from kvant.gateway.books import Books
from kvant.gateway.call import Call
from kvant.gateway.cast import Cast
from kvant.gateway.keys.file import KeyFile
from kvant.gateway.keys.key import Key
from kvant.gateway.keys.key import Scope as KeyScope
from kvant.gateway.proxy.backend import Backend
from kvant.gateway.proxy.exchange import Exchange
from kvant.gateway.proxy.passing import passed
from kvant.gateway.proxy.reply import Reply
from kvant.gateway.settings import GatewaySettings
from kvant.http import body, envelope
from kvant.http.body import Gone, Refused
from kvant.http.request import plain, sound_id
from kvant.http.state import State

access = logging.getLogger("kvant.access")
log = logging.getLogger("kvant.gateway")

GENERATES = ("/v1/chat/completions", "/v1/completions")
PASSED = {"/v1/models": "GET", "/v1/embeddings": "POST", "/tokenize": "POST", "/detokenize": "POST"}
"""What is passed to the baseline as it is."""
PROBES = ("/health", "/ready")
ROUTINE = (*PROBES, "/metrics", "/console/data")
"""Asked for all the time: no line of the log for each."""
CUT_SECONDS = 2.0
"""For calls that are cut to say so."""


@dataclass(frozen=True)
class Mount:
    """An app of its own below a path, for keys of this scope; None lets everybody in."""

    app: ASGIApp
    scope: KeyScope | None


@dataclass
class Visit:
    """One request before it is a call."""

    scope: Scope
    headers: Headers
    reply: Reply
    id: str
    key: Key | None = None
    address: str = field(default="", kw_only=True)

    @property
    def path(self) -> str:
        return str(self.scope["path"])


class Door:
    """The ASGI app of the gateway."""

    def __init__(
        self,
        settings: GatewaySettings,
        backend: Backend,
        cast: Cast,
        books: Books,
        lines: Mapping[str, Line],
        keys: KeyFile | None,
        mounts: Mapping[str, Mount],
    ) -> None:
        self.state = State()
        self._settings, self._backend, self._cast = settings, backend, cast
        self._books, self._lines, self._keys, self._mounts = books, lines, keys, mounts
        self._allowed = AllowList(settings.security.allow)
        self.quotas = Quotas(settings.limits)
        self._running: set[Exchange] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        if scope["type"] != "http":
            return
        headers, call_id, began = Headers(scope=scope), uuid.uuid4().hex, time.monotonic()
        reply = Reply(send, {"x-request-id": sound_id(headers.get("x-request-id")) or call_id})
        address = (scope.get("client") or ("",))[0]
        visit = Visit(scope, headers, reply, call_id, address=address)
        try:
            await self._visited(visit, receive)
        except Refused as refused:
            self._books.refused(refused.refusal, visit.id, visit.key, address, visit.path, headers)
            await reply.refuse(refused.refusal)
        except Gone:
            pass
        except Exception as error:
            # Neither the message nor the locals: they may hold the prompt.
            frames = "".join(traceback.format_tb(error.__traceback__))
            log.error("request %s failed with %s\n%s", call_id, type(error).__name__, frames)
            await reply.refuse(envelope.internal(call_id))
        finally:
            level = logging.DEBUG if visit.path in ROUTINE else logging.INFO
            if access.isEnabledFor(level):
                words = (scope["method"], plain(visit.path), reply.status, time.monotonic() - began, call_id)
                access.log(level, "%s %s %d %.3fs %s", *words)

    async def _visited(self, visit: Visit, receive: Receive) -> None:
        """Check by check; `Refused` at the first that fails."""
        if visit.path in PROBES:
            await self._own(visit, self._probe(visit.path))
            return
        if not self._allowed.admits(visit.address):
            raise Refused(envelope.forbidden("this address is not on the gateway's list"))
        if visit.path == "/openapi.json":
            await self._own(visit, openapi.response())
        elif visit.path == "/metrics" and self._settings.monitoring.metrics_port is None:
            self._admit(visit, "metrics")
            await self._own(visit, self._books.response())
        elif mount := self._mount(visit.path):
            if mount.scope is not None:
                self._admit(visit, mount.scope)
            if visit.key is not None:
                visit.scope.setdefault("state", {})["key"] = visit.key.id
            await mount.app(visit.scope, receive, visit.reply.forward)
            if mount.scope is not None and visit.scope["method"] not in ("GET", "HEAD"):
                told = (visit.key, visit.address, visit.path, visit.reply.status, visit.headers)
                self._books.steered(visit.scope["method"], visit.id, *told)
        else:
            await self._api(visit, receive)

    async def _api(self, visit: Visit, receive: Receive) -> None:
        path, method = visit.path, visit.scope["method"]
        if path not in GENERATES and path not in PASSED:
            raise Refused(envelope.not_found(path))
        if method != PASSED.get(path, "POST"):
            raise Refused(envelope.wrong_method(method, path))
        self._admit(visit, "generate")
        if refusal := self.state.refusal():
            raise Refused(refusal)
        headers, limits = visit.headers, self._settings.limits
        onward = trace.onward(headers.get("traceparent"), headers.get("tracestate"))
        onward["x-request-id"] = visit.id
        content = await body.read(headers, receive, limits.body_bytes) if method == "POST" else None
        parsed = {} if content is None else body.check(content)
        if path in PASSED:
            await passed(self._backend, method, path, content, onward, visit.reply, visit.id)
            return
        parsed = intake.check(parsed, limits)
        call = intake.call(visit.id, path, parsed, headers, visit.key.id if visit.key else "")
        try:
            with self.quotas.granted(visit.key, intake.estimate(parsed)) as grant:
                visit.reply.headers.update(self.quotas.headers(visit.key))
                gone = asyncio.ensure_future(receive())
                try:
                    await self._serve(visit, call, onward, gone, grant, outgoing.wants_usage(parsed))
                finally:
                    gone.cancel()
        except Refused:
            visit.reply.headers.update(self.quotas.headers(visit.key))
            raise

    async def _serve(
        self,
        visit: Visit,
        call: Call,
        onward: Mapping[str, str],
        gone: asyncio.Future[Any],
        grant: Grant,
        usage: bool,
    ) -> None:
        arm = self._cast.choose(call)
        arm = arm if arm in self._lines else next(iter(self._lines))
        async with self._lines[arm].place(call.priority, gone):
            self._cast.began(call, arm)
            exchange = Exchange(self._backend, self._cast, call, visit.reply, onward)
            self._running.add(exchange)
            try:
                served = await exchange.run(gone, arm, usage)
            finally:
                self._running.discard(exchange)
        grant.spent = served.prompt_tokens + served.tokens
        self._books.ended(served, visit.address, visit.headers)
        self._cast.ended(served)

    def metrics(self, path: str) -> Response:
        """Of a listener for /metrics alone."""
        return self._books.response() if path == "/metrics" else Response(status_code=404)

    def _admit(self, visit: Visit, scope: KeyScope) -> None:
        """The key of the request, where any are asked for."""
        if self._keys is None:
            if scope == "admin":
                steered.check(visit.headers)
            return
        visit.key = self._keys.ring().admit(visit.headers.get("authorization"), time.time())
        if visit.key is None:
            raise Refused(envelope.unauthorised())
        if scope not in visit.key.scopes:
            raise Refused(envelope.forbidden(f"this key has not the scope {scope}"))

    def _mount(self, path: str) -> Mount | None:
        found = [one for one in self._mounts if path == one or path.startswith(one + "/")]
        return self._mounts[max(found, key=len)] if found else None

    def _probe(self, path: str) -> Response:
        return probes.health() if path == "/health" else probes.ready(self.state, self._backend.arms)

    async def _own(self, visit: Visit, response: Response) -> None:
        kind = response.headers["content-type"]
        visit.reply.headers |= {k: v for k, v in response.headers.items() if k == "retry-after"}
        await visit.reply.whole(response.status_code, kind, bytes(response.body))

    async def drain(self, seconds: float, insisted: asyncio.Event) -> None:
        """Lets running calls finish for so long, or until insisted, then cuts them."""
        self.state = self.state.drain()
        hurry = asyncio.ensure_future(insisted.wait())
        end = time.monotonic() + seconds
        while self.quotas.used and time.monotonic() < end and not hurry.done():
            await asyncio.wait({hurry}, timeout=0.05)
        hurry.cancel()
        for exchange in tuple(self._running):
            exchange.cut("draining")
        end = time.monotonic() + CUT_SECONDS
        while self._running and time.monotonic() < end:
            await asyncio.sleep(0.02)
