"""A stream that is read while something else happens to its server."""

from __future__ import annotations

import threading

import httpx

from tests.e2e.server import MODEL, Server, until

ASKED = {"model": MODEL, "prompt": "Once upon a time", "ignore_eos": True, "stream": True}


class Reader:
    """A stream that is read in a thread: its events so far, and whether it has ended."""

    def __init__(self, server: Server, tokens: int) -> None:
        self.events: list[str] = []
        self._server, self._tokens = server, tokens
        self._thread = threading.Thread(target=self._read)
        self._thread.start()
        self.more(3)

    def _read(self) -> None:
        body = {**ASKED, "max_tokens": self._tokens}
        with httpx.stream("POST", f"{self._server.url}/v1/completions", json=body, timeout=120) as answer:
            for line in answer.iter_lines():
                if line:
                    self.events.append(line.removeprefix("data: "))

    def more(self, count: int) -> None:
        """Waits for so many further events."""
        wanted = len(self.events) + count
        until(lambda: len(self.events) >= wanted, 60)

    def join(self) -> list[str]:
        self._thread.join(120)
        assert not self._thread.is_alive()
        return self.events
