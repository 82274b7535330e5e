"""A server killed with SIGKILL, as the kernel does when memory runs out; last, as it ends a shared server."""

from __future__ import annotations

import signal
from pathlib import Path

import psutil
import pytest

from tests.e2e.fixtures import small
from tests.e2e.server import Server, serving


def test_an_engine_whose_server_was_killed_ends_by_itself(strict: Server) -> None:
    processes = strict.processes()
    assert len(processes) >= 3, "server, engine and worker"
    strict.stop(signal.SIGKILL)
    alive = psutil.wait_procs(processes, timeout=30)[1]
    names = [process.name() for process in alive]
    for process in alive:
        process.kill()
    assert not names, f"left behind: {names}"


@pytest.mark.slow
def test_a_service_whose_engine_dies_says_so_and_ends(tmp_path: Path) -> None:
    with serving(tmp_path, small()) as server:
        server.wait()
        processes = server.processes()
        for process in processes:
            if "EngineCore" in process.name():
                process.kill()
        assert server.process.wait(30) == 2
        assert "error: the engine has died; its last log lines tell why" in server.log.splitlines()
        assert not psutil.wait_procs(processes, timeout=10)[1]
