"""The end of a service: running requests get time to finish."""

from __future__ import annotations

import asyncio
import logging

from kvant.engine.server import Door
from kvant.http import envelope
from kvant.http.stop import Stop

log = logging.getLogger("kvant.server")


async def drain(door: Door, stop: Stop, seconds: float) -> bool:
    """Lets running requests finish for so long, then cuts them; True when all had finished.

    The socket stays open meanwhile: a refusal with Retry-After tells clients more than a closed port.
    """
    door.become(door.state.drain())
    log.info("draining: %d requests in flight, up to %g s", door.slots.used, seconds)
    finished = asyncio.ensure_future(door.slots.empty())
    insisted = asyncio.ensure_future(stop.insisted.wait())
    await asyncio.wait({finished, insisted}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    insisted.cancel()
    if not finished.done():
        log.warning("draining ended with %d requests in flight; they are cut", door.slots.used)
        await door.cut_all(envelope.unavailable("draining", "the service is shutting down"))
        await asyncio.wait({finished}, timeout=1)
    whole = finished.done()
    finished.cancel()
    return whole
