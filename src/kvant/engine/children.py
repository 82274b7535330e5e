"""No process of ours outlives us: the last step of every way to end."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable

import psutil  # type: ignore[import-untyped]

log = logging.getLogger("kvant.server")


def stop_all(seconds: float) -> int:
    """Terminates all descendants, kills those that live on after so many seconds; how many there were."""
    # The resource tracker ends by itself when we do, and cleans up shared memory then.
    processes = [
        process
        for process in psutil.Process().children(recursive=True)
        if "multiprocessing.resource_tracker" not in " ".join(_command(process))
    ]
    for process in processes:
        _quietly(process.terminate)
    _, alive = psutil.wait_procs(processes, timeout=seconds)
    for process in alive:
        log.warning("process %d did not stop in %g s; killed", process.pid, seconds)
        _quietly(process.kill)
    psutil.wait_procs(alive, timeout=5)
    return len(processes)


def _command(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


def _quietly(action: Callable[[], None]) -> None:
    # The process may have ended in the meantime.
    with contextlib.suppress(psutil.Error):
        action()
