"""Keeps a controller ticking beside the event loop, in a thread that may wait for its store."""

from __future__ import annotations

import logging
import threading
from types import TracebackType

from kvant.rollout.controller import Controller

log = logging.getLogger(__name__)

EVERY = 0.5
"""Seconds; with several gateways, how late a rollback by one is known to the others."""


class Keeper:
    """A context: ticks from entry to exit, and once more at exit."""

    def __init__(self, controller: Controller, every: float = EVERY) -> None:
        self._controller, self._every = controller, every
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kvant-rollout", daemon=True)

    def __enter__(self) -> Keeper:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._controller.tick()

    def _run(self) -> None:
        while not self._stop.wait(self._every):
            try:
                self._controller.tick()
            except Exception:
                log.exception("rollout: a tick failed; the rollout holds")
