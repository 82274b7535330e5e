"""Sockets: bound before anything else, so that a taken port is an error of the first second."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp

from kvant.errors import EngineError

CLOSE_SECONDS = 3
MAX_HEADER_BYTES = 65_536


class Listener(uvicorn.Server):
    """One app on one socket; signals are left to the service (`kvant.engine.drain`)."""

    def __init__(self, app: ASGIApp, host: str, port: int, field: str) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                lifespan="off",
                http="h11",  # the one that bounds headers, which come before any key is checked
                h11_max_incomplete_event_size=MAX_HEADER_BYTES,
                server_header=False,
                timeout_graceful_shutdown=CLOSE_SECONDS,
            )
        )
        self._socket = bind(host, port, field)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def run_until_closed(self) -> None:
        """Serves until `should_exit` is set; open connections then get `CLOSE_SECONDS`."""
        try:
            await self.serve(sockets=[self._socket])
        finally:
            self._socket.close()

    async def close(self, task: asyncio.Task[None]) -> None:
        """Stops and waits for the task that runs `run_until_closed`."""
        self.should_exit = True
        await asyncio.wait({task})


def bind(host: str, port: int, field: str) -> socket.socket:
    """A bound TCP socket; `EngineError` names the setting when the address cannot be had."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        found = socket.socket(family, kind, protocol)
        try:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            found.bind(address)
        except OSError:
            found.close()
            raise
    except OSError as error:
        raise EngineError(
            f"{field}: cannot listen on {host} port {port}: {error.strerror or error}; "
            "stop what uses it, or choose another port"
        ) from error
    return found
