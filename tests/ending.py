"""Servers that end when they are told to: uvicorn looks ten times a second, and waits a tenth more."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn


class Server(uvicorn.Server):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop, self._told = asyncio.get_running_loop(), asyncio.Event()
        await super().startup(sockets)

    async def main_loop(self) -> None:
        await self.on_tick(0)
        await self._told.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for one in (*self.servers, *(sockets or ())):
            one.close()
        for connection in tuple(self.server_state.connections):
            connection.shutdown()

    def end(self) -> None:
        """What is under way is cut."""
        self._loop.call_soon_threadsafe(self._told.set)


@contextmanager
def running(config: uvicorn.Config, listener: socket.socket) -> Iterator[None]:
    """Serves on this socket."""
    server = Server(config)
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.002)
    try:
        yield
    finally:
        server.end()
        thread.join(10)
        listener.close()
        assert not thread.is_alive()
