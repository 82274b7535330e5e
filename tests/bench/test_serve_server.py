"""Servers that die, that never answer, and that leave processes behind. Stand-ins, not vLLM."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

import kvant
from kvant.bench.serve.server import Server, end_all
from kvant.bench.serve.sides import Side
from kvant.child import free_port
from kvant.errors import EngineError


def start(tmp_path: Path, program: str) -> Server:
    return Server(Side("some", (sys.executable, "-c", program), {}), free_port(), tmp_path / "log")


def test_a_server_that_dies_shows_its_last_lines(tmp_path):
    server = start(tmp_path, "import sys; print('no such model', flush=True); sys.exit(3)")
    with pytest.raises(EngineError, match=r"of some did not start; its exit status is 3.*\nno such model"):
        server.wait(60)
    end_all([server])


def test_lines_of_requests_do_not_push_the_cause_out(tmp_path):
    asked = "2026-01-01 00:00:00,000 INFO kvant.access GET /v1/models 503 0.000s 1"
    program = f"import sys; print('no such model'); [print({asked!r}) for _ in range(50)]; sys.exit(3)"
    server = start(tmp_path, program)
    with pytest.raises(EngineError, match=r"its last lines:\nno such model$"):
        server.wait(60)
    end_all([server])


def test_a_server_that_never_answers_is_given_up(tmp_path):
    server = start(tmp_path, "import time; time.sleep(600)")
    try:
        with pytest.raises(EngineError, match=r"did not start within 0\.5 seconds"):
            server.wait(0.5)
    finally:
        end_all([server])


def test_the_end_takes_children_that_do_not_listen_along(tmp_path, monkeypatch):
    monkeypatch.setattr("kvant.bench.serve.server.STOP_SECONDS", 1.0)
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); "
    deaf += "time.sleep(600)"
    program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {deaf!r}])"
    before = psutil.Process().children(recursive=True)  # of other tests
    server = start(tmp_path, program)
    deadline = time.monotonic() + 60
    while "up" not in (tmp_path / "log").read_text() and time.monotonic() < deadline:
        time.sleep(0.05)
    family = [one for one in psutil.Process().children(recursive=True) if one not in before]
    assert len(family) >= 2
    end_all([server])
    _, left = psutil.wait_procs(family, timeout=10)
    assert left == []


def test_a_bench_that_is_killed_takes_its_servers_along(tmp_path):
    program = (
        "import sys, time; from pathlib import Path\n"
        "from kvant.bench.serve.server import Server; from kvant.bench.serve.sides import Side\n"
        "sleep = (sys.executable, '-c', 'import time; time.sleep(600)')\n"
        f"Server(Side('some', sleep, {{}}), 1, Path({str(tmp_path / 'log')!r})); print('up', flush=True)\n"
        "time.sleep(600)"
    )
    source = str(Path(kvant.__file__).parents[1])
    bench = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": source}
    )
    with bench:
        assert bench.stdout is not None
        assert bench.stdout.readline() == b"up\n"
        servers = psutil.Process(bench.pid).children()
        bench.kill()
    assert len(servers) == 1
    _, left = psutil.wait_procs(servers, timeout=10)
    assert left == []
