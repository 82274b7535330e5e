"""The queue before an arm: interactive requests before batch ones, both bounded."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from kvant.gateway.call import Priority
from kvant.gateway.settings import Scheduling
from kvant.http.body import Gone, Refused
from kvant.http.envelope import Refusal

ORDER: tuple[Priority, ...] = ("interactive", "batch")


class Line:
    """As many calls at a time as `slots()` says now; the others wait, or are sent away."""

    def __init__(self, scheduling: Scheduling, slots: Callable[[], int]) -> None:
        self._slots = slots
        self._seconds = scheduling.queue_seconds
        self._room = {"interactive": scheduling.queue_interactive, "batch": scheduling.queue_batch}
        self._waiting: dict[Priority, deque[asyncio.Future[None]]] = {one: deque() for one in ORDER}
        self.running = 0

    def waiting(self, priority: Priority) -> int:
        return len(self._waiting[priority])

    @asynccontextmanager
    async def place(self, priority: Priority, gone: asyncio.Future[Any]) -> AsyncIterator[None]:
        """A slot for the time of the block; `Refused` where the queue is full or the wait too long, `Gone`
        where the client left before."""
        await self._enter(priority, gone)
        try:
            yield
        finally:
            self.running -= 1
            self.advance()

    def advance(self) -> None:
        """Lets in whom there is room for: called when a call ends and when slots are added."""
        while self.running < self._slots():
            turn = next((self._waiting[one].popleft() for one in ORDER if self._waiting[one]), None)
            if turn is None:
                return
            self.running += 1
            turn.set_result(None)

    async def _enter(self, priority: Priority, gone: asyncio.Future[Any]) -> None:
        queue = self._waiting[priority]
        ahead = sum(len(self._waiting[one]) for one in ORDER[: ORDER.index(priority) + 1])
        if not ahead and self.running < self._slots():
            self.running += 1
            return
        if len(queue) >= self._room[priority]:
            raise Refused(_busy("queue_full", f"{len(queue)} {priority} requests wait already", 1.0))
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(turn)
        try:
            await asyncio.wait({turn, gone}, timeout=self._seconds, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._leave(queue, turn)
            raise
        if gone.done():
            self._leave(queue, turn)
            raise Gone
        if not turn.done():
            self._leave(queue, turn)
            text = f"no engine was free for {self._seconds:g} s"
            raise Refused(_busy("queue_timeout", text, self._seconds))

    def _leave(self, queue: deque[asyncio.Future[None]], turn: asyncio.Future[None]) -> None:
        if turn.done():  # let in at the very moment of leaving
            self.running -= 1
            self.advance()
        else:
            queue.remove(turn)


def _busy(reason: str, why: str, seconds: float) -> Refusal:
    wait = max(1, math.ceil(seconds))
    return Refusal(503, reason, "ServiceUnavailableError", f"{why}; try again", retry_after=wait)
