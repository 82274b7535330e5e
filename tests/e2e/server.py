"""A real `kvant serve` in a process of its own, as a user would start it."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import psutil
from openai import OpenAI

KVANT = str(Path(sys.executable).with_name("kvant"))
MODEL = "smollm2-135m-instruct"
START_SECONDS = 240

SETTINGS_OF_OTHERS = re.compile(r"VLLM_|HF_|TRANSFORMERS_|OMP_|GOMP_|KMP_|TORCH_|LD_PRELOAD|PROMETHEUS_")
"""Variables that other tests or the shell may have set, and that would change what is served."""


class Server:
    """A running service: its address, its log, and how to end it."""

    def __init__(
        self,
        folder: Path,
        settings: dict[str, dict[str, Any]],
        arguments: tuple[str, ...] = (),
        env: dict[str, str] | None = None,
    ) -> None:
        self.port = free_port()
        self.folder = folder
        serving = {"port": self.port, **settings.get("serving", {})}
        self.settings = {**settings, "serving": serving}
        config = folder / "kvant.yaml"
        config.write_text(json.dumps(self.settings, indent=2))  # JSON is YAML
        self._log = (folder / "log").open("wb")
        self.process = subprocess.Popen(
            [KVANT, "serve", "-c", str(config), *arguments],
            stdout=self._log,
            stderr=subprocess.STDOUT,
            env=_environment() | (env or {}),
            start_new_session=True,
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def get(self, path: str, **options: Any) -> httpx.Response:
        return httpx.get(self.url + path, timeout=10, **options)

    def client(self, key: str = "none", **options: Any) -> OpenAI:
        """A client of the real library, without retries that would hide a refusal."""
        return OpenAI(base_url=f"{self.url}/v1", api_key=key, **{"max_retries": 0, "timeout": 120, **options})

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a series on /metrics over the labels not given."""
        total = 0.0
        for line in self.get("/metrics").text.splitlines():
            series, _, value = line.rpartition(" ")
            if series.partition("{")[0] == name and all(f'{k}="{v}"' in series for k, v in labels.items()):
                total += float(value)
        return total

    def wait(self, status: int = 200) -> dict[str, Any]:
        """What /ready answers once it answers with this status."""
        answer = until(
            lambda: self._ready(status), START_SECONDS, lambda: f"/ready never said {status}\n{self.log}"
        )
        return dict(answer)

    def _ready(self, status: int) -> dict[str, Any] | None:
        if self.process.poll() is not None:
            raise AssertionError(f"kvant serve ended with {self.process.returncode}:\n{self.log}")
        try:
            response = self.get("/ready")
        except httpx.TransportError:
            return None
        return response.json() if response.status_code == status else None

    def processes(self) -> list[psutil.Process]:
        """The service and everything it has started."""
        try:
            root = psutil.Process(self.process.pid)
            return [root, *root.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def stop(self, number: int = signal.SIGTERM, seconds: float = 60) -> int:
        """Ends the service with a signal; its exit status."""
        self.process.send_signal(number)
        return self.process.wait(seconds)

    def close(self) -> None:
        """Whatever happened: nothing of it is left."""
        left = self.processes()
        if self.process.poll() is None:
            self.process.terminate()
            _, left = psutil.wait_procs(left, timeout=40)
        for process in left:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.wait(10)
        self._log.close()


def until(
    found: Callable[[], Any],
    seconds: float,
    complaint: Callable[[], str] = lambda: "never true",
    every: float = 0.2,
) -> Any:
    """The first true value of `found()`, asked again and again for so many seconds."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if value := found():
            return value
        time.sleep(every)
    raise AssertionError(complaint())


@contextmanager
def serving(
    folder: Path, settings: dict[str, dict[str, Any]], *arguments: str, env: dict[str, str] | None = None
) -> Iterator[Server]:
    """A server that has been started; `wait` tells when it is ready."""
    server = Server(folder, settings, arguments, env)
    try:
        yield server
    finally:
        server.close()


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not SETTINGS_OF_OTHERS.match(name)}
    # Threads that spin while they wait are starved many times over when something else runs as well.
    return {**kept, "OMP_WAIT_POLICY": "passive"}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
