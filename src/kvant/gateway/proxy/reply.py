"""The client's side of a call: what it has been told so far."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.types import Message, Send

from kvant.http.envelope import Refusal


class Reply:
    """Writes one answer. `status` is 0 until its head was sent."""

    def __init__(self, send: Send, headers: Mapping[str, str]) -> None:
        self._send = send
        self.headers = dict(headers)
        """Of the answer, whatever it will be."""
        self.status = 0
        self.streaming = False
        self.ended = False

    async def start(self, status: int, kind: str, length: int | None = None) -> None:
        headers = {**self.headers, "content-type": kind}
        if length is not None:
            headers["content-length"] = str(length)
        self.status, self.streaming = status, kind.startswith("text/event-stream")
        raw = [(name.lower().encode("latin-1"), text.encode("latin-1")) for name, text in headers.items()]
        await self._send({"type": "http.response.start", "status": status, "headers": raw})

    async def forward(self, message: Message) -> None:
        """What an app of its own answers, of which the status is remembered."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
        await self._send(message)

    async def write(self, data: bytes) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self, data: bytes = b"") -> None:
        self.ended = True
        await self._send({"type": "http.response.body", "body": data, "more_body": False})

    async def whole(self, status: int, kind: str, body: bytes) -> None:
        await self.start(status, kind, len(body))
        await self.end(body)

    async def refuse(self, refusal: Refusal) -> None:
        """Says why in whatever state the answer is: as one of its own, or as the last event of a stream."""
        if self.ended:
            return
        if not self.status:
            self.headers.update(refusal.headers())
            await self.whole(refusal.status, "application/json", refusal.encoded())
        else:
            await self.end(refusal.event() if self.streaming else b"")
