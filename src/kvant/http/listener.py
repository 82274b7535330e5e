"""Sockets: bound before anything else, so that a taken port is an error of the first second."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from kvant.errors import EngineError
from kvant.http.certificate import Certificate

CLOSE_SECONDS = 3
MAX_HEADER_BYTES = 65_536
HEAD_SECONDS = 10
KEEP_SECONDS = 75
"""How long a quiet connection stays open after an answer. Clients such as OpenAI's leave one after 5 s: who
closes while a request is under way resets it, so that must not be us."""
BACKLOG = 4096
"""Connections that the kernel holds while the loop is busy: a thousand streams may begin at once."""


class Protocol(H11Protocol):
    """Closes a connection that does not finish the head of a request within `HEAD_SECONDS`."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def _watch(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._forget()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _forget(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class Listener(uvicorn.Server):
    """One app on one socket; signals are left to the service (`kvant.http.stop`)."""

    def __init__(
        self, app: ASGIApp, host: str, port: int, field: str, certificate: Certificate | None = None
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                lifespan="off",
                http=Protocol,  # h11 bounds headers, which come before any key is checked
                h11_max_incomplete_event_size=MAX_HEADER_BYTES,
                server_header=False,
                proxy_headers=False,  # or anybody on loopback could choose the address he comes from
                timeout_keep_alive=KEEP_SECONDS,
                timeout_graceful_shutdown=CLOSE_SECONDS,
                backlog=BACKLOG,
            )
        )
        if certificate is not None:
            # After `load`, which would make a context of its own that nothing can reload.
            self.config.load()
            self.config.ssl = certificate.context
        self._socket = bind(host, port, field)

    @property
    def port(self) -> int:
        return int(self._socket.getsockname()[1])

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
