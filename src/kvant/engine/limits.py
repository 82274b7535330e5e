"""How many requests are in flight: a counter with a ceiling, and a way to wait until none is left."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from kvant.http import envelope
from kvant.http.body import Refused


class Slots:
    """`limit` requests at a time; the next one is refused with 429, never queued without bound."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._empty = asyncio.Event()
        self._empty.set()

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Holds a slot for the time of the block; raises `Refused` when all are taken."""
        if self.used >= self.limit:
            raise Refused(envelope.busy(self.limit))
        self.used += 1
        self._empty.clear()
        try:
            yield
        finally:
            self.used -= 1
            if not self.used:
                self._empty.set()

    async def empty(self) -> None:
        """Returns when no request is in flight."""
        await self._empty.wait()
