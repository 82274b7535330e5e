"""Engines that the gateway starts: `kvant serve` on loopback, restarted when they end, never left behind."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from kvant.child import end_with_parent
from kvant.gateway.arms.replica import Replica
from kvant.gateway.settings import Arm

log = logging.getLogger("kvant.gateway")

COMMAND = (sys.executable, "-c", "from kvant.cli import main; main()", "serve")
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
STEADY_SECONDS = 60.0
"""An engine that ran so long was well: the next pause is a short one again."""
STOP_SECONDS = 45.0
"""For an engine to drain and end; `kvant serve` itself gives its streams 30."""


class Child:
    """One engine of an arm and the replica it is known by."""

    def __init__(self, name: str, arm: Arm, replica: Replica, command: tuple[str, ...] = COMMAND) -> None:
        self._name, self._arm, self.replica, self._command = name, arm, replica, command
        self._process: asyncio.subprocess.Process | None = None

    async def run(self) -> None:
        """Keeps it running until cancelled; then it is asked to end, and killed if it does not."""
        pause = FIRST_PAUSE
        with _settings_file(self._arm) as (config, descriptors):
            try:
                while True:
                    began = time.monotonic()
                    self._process = process = await self._start(config, descriptors)
                    status = await process.wait()
                    self.replica.failed(time.monotonic() + LONGEST_PAUSE)
                    if time.monotonic() - began >= STEADY_SECONDS:
                        pause = FIRST_PAUSE
                    log.error("%s: engine ended with status %d; again in %g s", self._name, status, pause)
                    await asyncio.sleep(pause)
                    pause = min(LONGEST_PAUSE, 2 * pause)
            finally:
                await self._stop()

    async def _start(self, config: Path, descriptors: tuple[int, ...]) -> asyncio.subprocess.Process:
        port = self.replica.url.rpartition(":")[2]
        log.info("%s: starting an engine on port %s", self._name, port)
        return await asyncio.create_subprocess_exec(
            *(*self._command, "-c", str(config), "--host", "127.0.0.1", "--port", port, "--behind-gateway"),
            stdin=asyncio.subprocess.DEVNULL,
            pass_fds=descriptors,
            preexec_fn=end_with_parent,
            start_new_session=True,  # Ctrl-C is for the gateway, which drains before its engines end
        )

    async def _stop(self) -> None:
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), STOP_SECONDS)
        except asyncio.TimeoutError:
            log.warning("%s: the engine did not end in %g s; killed", self._name, STOP_SECONDS)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


@contextlib.contextmanager
def _settings_file(arm: Arm) -> Iterator[tuple[Path, tuple[int, ...]]]:
    """The engine's kvant.yaml and the descriptors it needs to read it: the file that is named, or what stands
    in gateway.yaml, in memory, so that nothing is left behind by a gateway that is killed."""
    if arm.config is not None:
        yield arm.config, ()
        return
    assert arm.serve is not None
    with open(os.memfd_create("kvant.yaml"), "w") as file:
        # JSON is YAML, and only what was written: defaults that follow from others stay open.
        file.write(json.dumps(arm.serve.model_dump(mode="json", exclude_unset=True)))
        file.flush()
        yield Path(f"/proc/self/fd/{file.fileno()}"), (file.fileno(),)
