"""The life of a service as a supervisor sees it: loading and gone; it drains in tests/test_drain.py."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import httpx
import psutil
import pytest

from tests.e2e.fixtures import small
from tests.e2e.reader import ASKED, Reader
from tests.e2e.server import Server, serving, until


def test_a_service_answers_probes_while_it_loads_and_stops_soon_when_asked(tmp_path: Path) -> None:
    with serving(tmp_path, small()) as server:
        # Alive, not ready, and every request is told when to come back.
        reason = server.wait(503)
        assert reason["status"] == "loading"
        assert server.get("/health").status_code == 200
        refused = httpx.post(f"{server.url}/v1/completions", json=ASKED)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, 503)
        assert int(refused.headers["retry-after"]) > 0
        processes = server.processes()
        assert server.stop(seconds=20) == 0
        assert not psutil.wait_procs(processes, timeout=10)[1]


@pytest.mark.slow
def test_ctrl_c_drains_and_a_second_one_stops_at_once(tmp_path: Path) -> None:
    with serving(tmp_path, small(serving={"drain_timeout": 600.0})) as server:
        server.wait()
        processes = server.processes()
        reader = Reader(server, tokens=1900)
        # A terminal sends SIGINT to every process of the group; the engine must not mind.
        os.killpg(server.process.pid, signal.SIGINT)
        until(lambda: server.get("/ready").json()["status"] == "draining", 5)
        reader.more(20)
        os.killpg(server.process.pid, signal.SIGINT)
        assert server.process.wait(20) == 0
        events = reader.join()
        assert events[-1] == "[DONE]"
        assert json.loads(events[-2])["error"]["code"] == 503
        assert not psutil.wait_procs(processes, timeout=5)[1]


@pytest.mark.slow
def test_a_signal_while_the_engine_loads_stops_everything_soon(tmp_path: Path) -> None:
    with serving(tmp_path, small()) as server:
        engine = until(lambda: [one for one in server.processes() if "EngineCore" in one.name()], 120)
        processes = server.processes()
        assert engine
        assert server.get("/ready").json()["status"] == "loading"
        assert server.stop(seconds=20) == 0
        assert not psutil.wait_procs(processes, timeout=10)[1]


@pytest.mark.parametrize("field", ["serving.port", "monitoring.metrics_port"])
def test_a_taken_port_is_an_error_of_the_first_seconds(tmp_path: Path, server: Server, field: str) -> None:
    section, name = field.split(".")
    with serving(tmp_path, small(**{section: {name: server.port}})) as second:
        assert second.process.wait(30) != 0
        assert second.log.splitlines()[-1].startswith(
            f"error: {field}: cannot listen on 127.0.0.1 port {server.port}"
        )
    assert server.get("/ready").status_code == 200
