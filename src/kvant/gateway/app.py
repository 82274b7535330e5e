"""The gateway put together: its arms, its roles and its doors. A role is plugged in with one line each:

gateway = Gateway(settings)
gateway.cast.router = controller
gateway.cast.guard = breaker
gateway.cast.watchers.append(shadow)
gateway.mount("/rollout", rollout_app)
gateway.beside.append(patrol.run)
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable

from starlette.types import ASGIApp

from kvant.gateway.admission.line import Line
from kvant.gateway.arms import poll
from kvant.gateway.arms.asker import ArmAsker
from kvant.gateway.arms.fleet import Fleet
from kvant.gateway.arms.upstream import Upstream
from kvant.gateway.audit.log import AuditLog
from kvant.gateway.books import Books
from kvant.gateway.cast import Cast
from kvant.gateway.door import Door, Mount
from kvant.gateway.keys.file import KeyFile
from kvant.gateway.keys.key import Scope
from kvant.gateway.proxy.backend import Backend
from kvant.gateway.settings import GatewaySettings
from kvant.telemetry.gateway import GatewayMetrics

log = logging.getLogger("kvant.gateway")

Beside = Callable[[], Awaitable[None]]


class Gateway:
    """Everything of one gateway. Roles are set before `running`; `asker` and `door` exist in it."""

    asker: ArmAsker
    door: Door

    def __init__(self, settings: GatewaySettings) -> None:
        self.settings = settings
        self.cast = Cast()
        self.metrics = GatewayMetrics()
        self.beside: list[Beside] = []
        """What runs as long as the gateway does; one that fails is logged and ends alone."""
        self._mounts: dict[str, Mount] = {}
        self._fleet = Fleet(settings)
        self.arms = self._fleet.arms
        self.lines = {name: Line(settings.scheduling, arm.slots) for name, arm in self.arms.items()}
        file = settings.security.key_file
        self._keys = None if file is None else KeyFile(file)

    def mount(self, prefix: str, app: ASGIApp, scope: Scope | None = "admin") -> None:
        """`app` answers at and below this path, for keys of this scope; None lets everybody in."""
        self._mounts[prefix] = Mount(app, scope)

    def mounted(self, prefix: str) -> bool:
        return prefix in self._mounts

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Door]:
        """The ASGI app, while engines run and connections to them are open."""
        settings = self.settings
        # First, because it may refuse: nothing is open yet that would have to be closed.
        audit = None if settings.audit.file is None else AuditLog(settings.audit)
        upstream = Upstream(settings.timeouts.connect)
        books = Books(self.metrics, audit, settings.audit.prompts)
        backend = Backend(self.arms, upstream, settings.timeouts, settings.routing)
        self.asker = ArmAsker(self.arms, upstream)
        door = self.door = Door(settings, backend, self.cast, books, self.lines, self._keys, self._mounts)

        def looked() -> None:
            for line in self.lines.values():
                line.advance()  # slots may have been added
            books.look(self.arms, self.lines, door.state.ready)

        async def look() -> None:
            await poll.keep_looking(self.arms.values(), upstream, settings.scheduling, looked)

        tasks = [asyncio.ensure_future(_alone(one)) for one in (self._fleet.run, look, *self.beside)]
        door.state = door.state.up()
        try:
            yield door
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await upstream.close()
            if audit is not None:
                await asyncio.to_thread(audit.close)


async def _alone(work: Beside) -> None:
    try:
        await work()
    except Exception as error:
        log.error("%s ended with %s", getattr(work, "__qualname__", work), type(error).__name__)
