"""The gateway put together: its arms, its roles and its doors. A role is plugged in with one line each:

gateway = Gateway(settings)
gateway.cast.router = controller
gateway.cast.guard = breaker
gateway.cast.watchers.append(shadow)
gateway.mounts["/admin"] = admin_app
gateway.beside.append(patrol.run)
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable

from starlette.types import ASGIApp

from kvant.gateway.arms.arm import Arm
from kvant.gateway.arms.asker import ArmAsker
from kvant.gateway.arms.local import Fleet
from kvant.gateway.arms.upstream import Upstream
from kvant.gateway.cast import Cast
from kvant.gateway.door import Door
from kvant.gateway.proxy.backend import Backend
from kvant.gateway.settings import GatewaySettings
from kvant.http.state import State

log = logging.getLogger("kvant.gateway")

Beside = Callable[[], Awaitable[None]]


class Gateway:
    """Everything of one gateway. Roles are set before `running`, in which `asker` and `door` exist."""

    asker: ArmAsker
    door: Door

    def __init__(self, settings: GatewaySettings) -> None:
        self.settings = settings
        self.cast = Cast()
        self.mounts: dict[str, ASGIApp] = {}
        """Prefix of a path to the app that answers below it; such apps ask for keys themselves."""
        self.beside: list[Beside] = []
        """Coroutines that run as long as the gateway does; one that fails is logged and ends alone."""
        self.fleet = Fleet(settings)
        self.arms: dict[str, Arm] = self.fleet.arms

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Door]:
        """The ASGI app, while connections to the arms are open."""
        upstream = Upstream(self.settings.timeouts.connect)
        backend = Backend(self.arms, upstream, self.settings.timeouts, self.settings.routing)
        self.asker = ArmAsker(self.arms, upstream)
        self.door = Door(self.settings, backend, self.cast, self.mounts)
        tasks = [asyncio.ensure_future(_alone(one)) for one in (self.fleet.run, *self.beside)]
        try:
            self.door.state = State().up()
            yield self.door
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await upstream.close()


async def _alone(work: Beside) -> None:
    try:
        await work()
    except Exception as error:
        log.error("%s ended with %s", getattr(work, "__qualname__", work), type(error).__name__)
