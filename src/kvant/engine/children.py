"""No process of ours outlives us: the last step of every way to end."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable

import psutil  # type: ignore[import-untyped]

log = logging.getLogger("kvant.server")

TRACKER = "multiprocessing.resource_tracker"
"""Ends by itself when all others have, and then removes the shared memory they left."""


def stop_all(seconds: float) -> None:
    """Asks all descendants to end, waits so long, and kills those that live on; 0 kills without asking."""
    if seconds:
        asked = _descendants()
        for process in asked:
            _quietly(process.terminate)
        psutil.wait_procs(asked, timeout=seconds)
    # One that is killed first leaves its own children to nobody: all are stopped before any is killed.
    held: list[psutil.Process] = []
    while found := [process for process in _descendants() if process not in held]:
        for process in found:
            _quietly(process.suspend)
        held += found
    for process in held:
        log.warning(
            "process %d (%s) did not end by itself; killed", process.pid, _command(process)[:60].strip()
        )
        _quietly(process.kill)
    psutil.wait_procs(held, timeout=5)


def _descendants() -> list[psutil.Process]:
    everyone = psutil.Process().children(recursive=True)
    return [one for one in everyone if TRACKER not in _command(one) and one.status() != psutil.STATUS_ZOMBIE]


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def _quietly(action: Callable[[], None]) -> None:
    # The process may have ended in the meantime.
    with contextlib.suppress(psutil.Error):
        action()
