"""How long a call may wait for what: one timer for all of it, moved by an assignment for each token."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Patience:
    """Calls `stop` once, when what is waited for does not come; `ended` then says what it was."""

    def __init__(self, total: float) -> None:
        self._loop = asyncio.get_running_loop()
        self.stop: Callable[[], object] = lambda: None
        self._end = self._loop.time() + total
        self._until = self._end
        self._word = "total"
        self.ended = ""
        self._timer: asyncio.TimerHandle | None = self._loop.call_at(self._end, self._look)

    def wait(self, word: str, seconds: float) -> None:
        """From now on for this, so long."""
        self._word, self._until = word, self._loop.time() + seconds
        if self._timer is not None and self._until < self._timer.when():
            self._timer.cancel()
            self._timer = self._loop.call_at(self._until, self._look)

    def over(self, word: str) -> None:
        """Stop now, for this reason."""
        if not self.ended:
            self.close()
            self.ended = word
            self.stop()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        now = self._loop.time()
        if now >= self._end:
            self.over("total")
        elif now >= self._until:
            self.over(self._word)
        else:
            self._timer = self._loop.call_at(min(self._until, self._end), self._look)
