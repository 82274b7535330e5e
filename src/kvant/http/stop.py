"""What SIGTERM and SIGINT ask for: the first one to drain, the second one to stop at once."""

from __future__ import annotations

import asyncio
import logging
import signal

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
