"""Connections to engines. Whatever goes wrong with one is `Unreachable` or `Broken`, never a traceback."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import aiohttp

from kvant.gateway.arms.replica import Replica

KEEP_SECONDS = 3.0
"""Less than the 5 s after which uvicorn closes a quiet connection, so that no request meets a closed one."""
LARGE = 1 << 20
"""Bytes of a body that is sent in parts."""
MAX_BYTES = 64 << 20
"""Of an answer in one piece; log-probabilities of a long prompt are large."""


class Unreachable(Exception):
    """Nothing of an answer came: another replica may be asked."""


class Broken(Exception):
    """The answer ended before its end."""


class Upstream:
    """The client of all arms; made and closed in the event loop."""

    def __init__(self, connect_seconds: float) -> None:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=connect_seconds),
            auto_decompress=False,
            skip_auto_headers=("User-Agent", "Accept"),
        )

    async def close(self) -> None:
        await self._session.close()

    @asynccontextmanager
    async def request(
        self,
        method: str,
        replica: Replica,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
        counted: bool = True,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The answer once its head is here. `Unreachable` before that, `Broken` while it is read.

        `counted`: whether it is work for the replica.
        """
        # Identity, because what is forwarded is read on the way.
        sent = {"Accept-Encoding": "identity", **headers, **replica.headers}
        if body is not None:
            sent["Content-Type"] = "application/json"
        replica.inflight += counted
        try:
            try:
                data = body if body is None or len(body) < LARGE else io.BytesIO(body)
                answer = await self._session.request(
                    method, replica.url + path, data=data, headers=sent, allow_redirects=False
                )
            except (aiohttp.ClientError, OSError) as error:
                raise Unreachable(type(error).__name__) from None
            try:
                yield answer
            except (aiohttp.ClientError, OSError) as error:
                raise Broken(type(error).__name__) from None
            finally:
                # An answer that was not read to its end closes its connection: so the engine stops.
                answer.close() if not answer.content.at_eof() else answer.release()
        finally:
            replica.inflight -= counted


async def whole(answer: aiohttp.ClientResponse) -> bytes:
    """The body; `Broken` where it has no end."""
    content = bytearray()
    async for piece in answer.content.iter_any():
        content += piece
        if len(content) > MAX_BYTES:
            raise Broken("an answer without end")
    return bytes(content)
