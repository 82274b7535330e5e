"""What SIGTERM and SIGINT do: the first one drains, the second one stops at once."""

from __future__ import annotations

import asyncio
import logging
import signal

from kvant.http import envelope
from kvant.engine.server import Door

log = logging.getLogger("kvant.server")

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Stop:
    """The wish to stop: `asked` after one signal, `insisted` after two."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.insisted = asyncio.Event()

    def install(self) -> None:
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self.signal, number)

    def signal(self, number: int) -> None:
        name = signal.Signals(number).name
        if self.asked.is_set():
            log.warning("%s again: stopping at once", name)
            self.insisted.set()
        else:
            log.warning("%s: stopping; again to stop at once", name)
        self.asked.set()


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
