"""Clients that only keep time: what each token's way took, from the engine's `send` to here."""

from __future__ import annotations

import asyncio
import json
import random
import re
import time
from dataclasses import dataclass, field

from kvant.bench.gateway.stub import MODEL

_SENT = re.compile(rb'"content": ?"(\d+\.\d{6}) ')
END = b"[DONE]"


@dataclass
class Heard:
    """Seconds of each token's way, and from a request to its first token."""

    delays: list[float] = field(default_factory=list)
    firsts: list[float] = field(default_factory=list)
    failures: int = 0


class _Stream(asyncio.Protocol):
    """One connection: a request, then its stream; as little work as will keep time."""

    def __init__(self, head: bytes, heard: Heard, ended: asyncio.Future[None]) -> None:
        self._request, self._heard, self._ended = head, heard, ended
        self._sent, self._first = 0.0, True
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._sent = time.monotonic()
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        now = time.monotonic()
        data = self._rest + data
        place = 0
        for found in _SENT.finditer(data):
            place = found.end()
            if self._first:
                self._first = False
                self._heard.firsts.append(now - self._sent)
            self._heard.delays.append(now - float(found[1]))
        self._rest = data[max(place, len(data) - 256) :]
        if END in self._rest:
            self._transport.close()
            self._finish(False)

    def connection_lost(self, error: Exception | None) -> None:
        self._finish(True)

    def _finish(self, failed: bool) -> None:
        if not self._ended.done():
            self._heard.failures += failed
            self._ended.set_result(None)


async def load(url: str, streams: int, tokens: int, seconds: float, per_token: float) -> Heard:
    """`streams` streams at a time for so long, each a request after the other, begun at scattered moments."""
    heard, end = Heard(), time.monotonic() + seconds
    draw = random.Random(0)

    async def client(pause: float) -> None:
        await asyncio.sleep(pause)
        while time.monotonic() < end:
            await _one(url, tokens, heard)

    await asyncio.gather(*(client(draw.random() * min(1.0, tokens * per_token)) for _ in range(streams)))
    return heard


async def hold(url: str, streams: int, tokens: int, spread: float) -> Heard:
    """So many streams, begun within `spread` seconds, each open to its end."""
    heard = Heard()

    async def client(pause: float) -> None:
        await asyncio.sleep(pause)
        await _one(url, tokens, heard)

    await asyncio.gather(*(client(spread * one / streams) for one in range(streams)))
    return heard


async def _one(url: str, tokens: int, heard: Heard) -> None:
    loop = asyncio.get_running_loop()
    host, port = url.removeprefix("http://").split(":")
    ended: asyncio.Future[None] = loop.create_future()
    body = json.dumps(
        {
            "model": MODEL,
            "stream": True,
            "max_tokens": tokens,
            "messages": [{"role": "user", "content": "go"}],
        }
    ).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    try:
        await loop.create_connection(lambda: _Stream(head.encode() + body, heard, ended), host, int(port))
    except OSError:
        heard.failures += 1
        await asyncio.sleep(0.1)
        return
    await ended
