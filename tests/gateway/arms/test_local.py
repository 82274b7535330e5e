"""Engines that the gateway starts: restarted when they die, gone when it is gone."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import psutil
import pytest

from kvant.child import free_port
from kvant.gateway.arms import local
from kvant.gateway.arms.local import Child
from kvant.gateway.arms.replica import Replica
from kvant.gateway.settings import Arm
from tests.gateway.proxy.test_calls import wait_until

ROOT = Path(__file__).parents[3]
SERVE = (
    "import sys, subprocess\n"
    "assert '--behind-gateway' in sys.argv\n"
    "print(open(sys.argv[sys.argv.index('-c') + 1]).read(), file=open('seen.json', 'w'))\n"
    "port = sys.argv[sys.argv.index('--port') + 1]\n"
    "sys.argv = ['engine', '--port', port]\n"
    "from tests.gateway.engine import main\n"
    "main()\n"
)
"""Takes the options of `kvant serve` and runs the stub engine."""


@pytest.fixture
def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Child:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(local, "FIRST_PAUSE", 0.1)
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'src'}:{ROOT}")
    arm = Arm.model_validate({"serve": {"model": {"path": "smollm2"}, "kv_cache": {"preset": "max"}}})
    program = tmp_path / "serve.py"
    program.write_text(SERVE)
    replica = Replica(f"http://127.0.0.1:{free_port()}", 8)
    return Child("candidate", arm, replica, (sys.executable, str(program)))


def answers(child: Child) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(child.replica.url + "/health").is_success
    return False


def test_it_runs_with_its_settings_is_restarted_and_ends(child: Child, tmp_path: Path) -> None:
    async def main() -> None:
        task = asyncio.ensure_future(child.run())
        await asyncio.to_thread(wait_until, lambda: answers(child), 20)
        assert (tmp_path / "seen.json").read_text().strip() == (
            '{"model": {"path": "smollm2"}, "kv_cache": {"preset": "max"}}'
        )
        assert child._process is not None
        first = child._process.pid
        os.kill(first, signal.SIGKILL)
        await asyncio.to_thread(wait_until, lambda: not psutil.pid_exists(first), 10)
        await asyncio.to_thread(wait_until, lambda: child._process.pid != first and answers(child), 20)
        second = child._process.pid
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert not psutil.pid_exists(second)

    asyncio.run(main())


def test_kill_9_of_the_gateway_leaves_no_engine_and_no_file(child: Child, tmp_path: Path) -> None:
    program = (
        "import sys, uvloop\n"
        "from kvant.gateway.arms.local import Child\n"
        "from kvant.gateway.arms.replica import Replica\n"
        "from kvant.gateway.settings import Arm\n"
        f"child = Child('a', Arm.model_validate({{'serve': {{}}}}), Replica({child.replica.url!r}, 8),\n"
        f"    (sys.executable, {str(tmp_path / 'serve.py')!r}))\n"
        "uvloop.run(child.run())\n"
    )
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary)}
    gateway = subprocess.Popen([sys.executable, "-c", program], env=environment)
    wait_until(lambda: answers(child), 20)
    (engine,) = psutil.Process(gateway.pid).children()
    gateway.kill()
    gateway.wait()
    engine.wait(10)
    time.sleep(0.05)
    assert not answers(child)
    assert (tmp_path / "seen.json").read_text() == "{}\n"
    assert list(temporary.iterdir()) == []
