"""One request on its way through vLLM's app: its body, its answer, and the one way to cut it short.

vLLM aborts a request in the engine when its client disconnects, and only then. So a cut (timeout,
end of draining) is told to the app as a disconnect, after the client got its error.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import Message, Receive, Scope, Send

from kvant.http import envelope
from kvant.http.envelope import Refusal

MAX_ERROR_BYTES = 1 << 20
"""An error body that grows beyond this is not read to its end."""
FAREWELL_SECONDS = 5.0
"""How long a client may take to read why its request was cut."""


class Exchange:
    """The `receive` and `send` that vLLM's app gets for one request."""

    def __init__(self, scope: Scope, body: bytes, receive: Receive, send: Send, request_id: str) -> None:
        self._scope = scope
        self._body: bytes | None = body
        self._receive = receive
        self._send = send
        self._id = request_id
        self._cut = asyncio.Event()
        self._gone = False
        self._done = False
        self._start: Message | None = None
        self._streaming = False
        self._error: list[bytes] | None = None

    async def receive(self) -> Message:
        """The body once; then nothing until the client leaves or the request is cut."""
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        waits = [asyncio.ensure_future(self._receive()), asyncio.ensure_future(self._cut.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            self._gone = waits[0].done()
        finally:
            for wait in waits:
                wait.cancel()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Passes the answer on; errors are held back until complete, bounded and put in the envelope."""
        if self._done or self._gone:
            return
        if message["type"] == "http.response.start":
            self._start = message
            kind = Headers(raw=message["headers"]).get("content-type", "")
            self._streaming = kind.startswith("text/event-stream")
            if message["status"] >= 400:
                self._error = []
                return
        elif message["type"] == "http.response.body":
            if self._error is not None:
                self._error.append(message.get("body", b""))
                if not message.get("more_body") or sum(map(len, self._error)) > MAX_ERROR_BYTES:
                    await self._answer(self._understood())
                return
            self._done = not message.get("more_body")
        await self._send(message)

    async def cut(self, refusal: Refusal) -> None:
        """Ends the request with this refusal, in whatever state its answer is."""
        if self._done:
            return
        # The engine first: a client that does not read must not keep it busy.
        self._done = True
        self._cut.set()
        if self._start is None or self._error is not None:
            farewell: Awaitable[None] = self._answer(refusal)
        else:
            tail = refusal.event() if self._streaming else b""
            farewell = self._send({"type": "http.response.body", "body": tail, "more_body": False})
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(farewell, FAREWELL_SECONDS)

    async def _answer(self, refusal: Refusal) -> None:
        self._done = True
        self._error = None
        self._start = self._start or {}
        await refusal.response()(self._scope, self._receive, self._send)

    def _understood(self) -> Refusal:
        assert self._start is not None
        assert self._error is not None
        return envelope.understood(int(self._start["status"]), b"".join(self._error), self._id)


def tagged(send: Send, request_id: str, started: Callable[[int], None]) -> Send:
    """`send` that adds x-request-id to the answer and reports its status."""

    async def wrapper(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(raw=message["headers"])["x-request-id"] = request_id
            started(message["status"])
        await send(message)

    return wrapper
