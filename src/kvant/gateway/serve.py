"""`kvant gateway`: one process from first byte to last."""

from __future__ import annotations

import asyncio
import contextlib
import logging

from kvant.gateway.app import Gateway
from kvant.http.listener import Listener
from kvant.http.logs import log_to_stderr
from kvant.http.stop import Stop

log = logging.getLogger("kvant.gateway")


def run(gateway: Gateway) -> int:
    """Serves until SIGTERM or SIGINT; 0 when it ended because it was asked to."""
    import uvloop

    log_to_stderr(gateway.settings.monitoring.log_level)
    uvloop.run(serve(gateway))
    return 0


async def serve(gateway: Gateway) -> None:
    """Returns when asked to stop, after draining."""
    stop = Stop()
    stop.install()
    listen = gateway.settings.listen
    async with gateway.running() as door:
        listener = Listener(door, listen.host, listen.port, "listen.port")
        task = asyncio.create_task(listener.run_until_closed())
        try:
            log.info("listening on http://%s:%d", listen.host, listen.port)
            await stop.asked.wait()
            await door.drain(listen.drain_timeout, stop.insisted)
        finally:
            with contextlib.suppress(asyncio.CancelledError):
                await listener.close(task)
