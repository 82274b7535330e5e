"""A plan that goes fast, real stores, and a real redis-server."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kvant.rollout.plan import Plan
from kvant.rollout.stores import Store, open_store
from kvant.rollout.stores.memory import Memory


class RedisServer:
    """On a socket in a folder of its own; keeps what it has confirmed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"unix://{folder}/s"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        words = ["--port", "0", "--unixsocket", f"{self.folder}/s", "--dir", str(self.folder), "--save", ""]
        words += ["--appendonly", "yes"]  # written at every command, which is enough for kill -9
        self._process = subprocess.Popen(["redis-server", *words], stdout=subprocess.DEVNULL)
        store = open_store(self.url)
        try:
            until(lambda: answers(store))
        finally:
            store.close()

    def kill(self) -> None:
        if self._process:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """There, but silent; until it is killed."""
        assert self._process
        self._process.send_signal(signal.SIGSTOP)

    def settle(self) -> None:
        """Wait until it has done what a killed client had sent, and has seen that it is gone."""
        import redis

        with redis.Redis(unix_socket_path=f"{self.folder}/s") as client:
            until(lambda: len(client.client_list()) == 1)

    def forget(self) -> None:
        shutil.rmtree(self.folder / "appendonlydir")


def answers(store: Store) -> bool:
    from kvant.errors import StoreError

    try:
        store.read()
    except StoreError:
        return False
    return True


def until(done, seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


@pytest.fixture
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    if shutil.which("redis-server") is None:
        pytest.skip("needs redis-server (Debian: apt install redis-server)")
    pytest.importorskip("redis", reason="needs the Python client of Redis")
    server = RedisServer(tmp_path_factory.mktemp("r"))
    server.start()
    yield server
    server.kill()


@pytest.fixture(params=["memory", "sqlite", "redis"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "memory":
        opened: Store = Memory()
    elif request.param == "sqlite":
        opened = open_store(str(tmp_path / "rollout.db"))
    else:
        opened = open_store(request.getfixturevalue("redis_server").url)
    yield opened
    opened.close()


Opener = Callable[[str], Store]


@pytest.fixture
def opened() -> Iterator[Opener]:
    """`open_store`, and closed at the end."""
    stores: list[Store] = []

    def open_one(where: str) -> Store:
        stores.append(open_store(where))
        return stores[-1]

    yield open_one
    for store in stores:
        store.close()


def quick(**fields) -> Plan:
    """A plan of two steps that asks for ten seconds and ten comparisons in each phase."""
    steps = [{"weight": weight, "dwell": 10, "compared": 10} for weight in (0.05, 0.5)]
    return Plan.model_validate(
        {"shadow": {"weight": 0.0, "dwell": 10, "compared": 10}, "canary": steps} | fields
    )


class Clock:
    """Time that stands until it is moved."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now
