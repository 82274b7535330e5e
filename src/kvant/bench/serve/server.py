"""One server in a process group of its own: started, waited for, and ended with all it has started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

import httpx

from kvant.bench.serve.sides import Side
from kvant.child import end_with_parent
from kvant.errors import EngineError

LAST_LINES = 20
ACCESS = " kvant.access "
"""In each line of the log that tells of a request, our own asking whether it is there included: no cause."""
STOP_SECONDS = 20.0
"""How long a server that was asked to end may take before it is killed."""


class Server:
    """A running side. Its group never sees the terminal's Ctrl-C: who started it ends it."""

    def __init__(self, side: Side, port: int, log: Path) -> None:
        self.name = side.name
        self.url = f"http://127.0.0.1:{port}"
        self._log = log
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                side.command,
                env=os.environ | side.env,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=end_with_parent,
            )

    def wait(self, seconds: float, path: str = "/v1/models") -> None:
        """Return once `path` is there; `EngineError` with its last log lines if it dies or takes too long."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise self.failure("did not start")
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(self.url + path, timeout=10, trust_env=False).is_success:
                    return
            time.sleep(0.3)
        raise self.failure(f"did not start within {seconds:g} seconds (--start-seconds gives it more)")

    def failure(self, what: str) -> EngineError:
        """The error of this server, with the end of its log."""
        status = self._process.poll()
        ended = "" if status is None else f"; its exit status is {status}"
        lines = [line for line in self._log.read_text(errors="replace").splitlines() if ACCESS not in line]
        lines = lines[-LAST_LINES:]
        return EngineError("\n".join([f"the server of {self.name} {what}{ended}; its last lines:", *lines]))

    def ask_to_end(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()

    def end(self) -> None:
        """Wait for what was asked, then kill whatever is left of the group."""
        deadline = time.monotonic() + STOP_SECONDS
        try:
            while self._alive() and time.monotonic() < deadline:
                time.sleep(0.1)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _alive(self) -> bool:
        """Whether any process of the group is left; asking also collects the first of them."""
        self._process.poll()
        try:
            os.killpg(self._process.pid, 0)
        except ProcessLookupError:
            return False
        return True


def end_all(servers: Iterable[Server]) -> None:
    """All are asked before any is waited for; an interrupted wait still kills."""
    with contextlib.ExitStack() as stack:
        for server in servers:
            stack.callback(server.end)
            server.ask_to_end()
