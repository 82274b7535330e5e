"""The life of a service as a supervisor sees it: loading, serving, draining, gone."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path

import httpx
import psutil
import pytest

from tests.e2e.fixtures import small
from tests.e2e.server import MODEL, Server, serving, until

ASKED = {"model": MODEL, "prompt": "Once upon a time", "ignore_eos": True, "stream": True}


class Reader:
    """A stream that is read in a thread: its events so far, and whether it has ended."""

    def __init__(self, server: Server, tokens: int) -> None:
        self.events: list[str] = []
        self._server, self._tokens = server, tokens
        self._thread = threading.Thread(target=self._read)
        self._thread.start()
        self.more(3)

    def _read(self) -> None:
        body = {**ASKED, "max_tokens": self._tokens}
        with httpx.stream("POST", f"{self._server.url}/v1/completions", json=body, timeout=120) as answer:
            for line in answer.iter_lines():
                if line:
                    self.events.append(line.removeprefix("data: "))

    def more(self, count: int) -> None:
        """Waits for so many further events."""
        wanted = len(self.events) + count
        until(lambda: len(self.events) >= wanted, 60)

    def join(self) -> list[str]:
        self._thread.join(120)
        assert not self._thread.is_alive()
        return self.events


def test_a_service_answers_probes_while_it_loads_and_drains_on_sigterm(tmp_path: Path) -> None:
    settings = small(serving={"drain_timeout": 100.0})
    with serving(tmp_path, settings) as server:
        # Loading: alive, not ready, and every request is told when to come back.
        reason = server.wait(503)
        assert reason["status"] == "loading"
        assert server.get("/health").status_code == 200
        refused = httpx.post(f"{server.url}/v1/completions", json=ASKED)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, 503)
        assert int(refused.headers["retry-after"]) > 0

        server.wait()
        processes = server.processes()
        assert len(processes) >= 3, "server, engine and worker"
        reader = Reader(server, tokens=120)
        with httpx.Client(base_url=server.url, timeout=30) as kept:
            assert kept.get("/v1/models").status_code == 200
            server.process.send_signal(signal.SIGTERM)
            until(lambda: server.get("/ready").status_code == 503, 5)
            # Draining: alive, and refusals on old and new connections alike.
            assert server.get("/ready").json()["status"] == "draining"
            assert server.get("/health").status_code == 200
            for answer in (
                kept.post("/v1/completions", json=ASKED),
                httpx.post(f"{server.url}/v1/completions", json=ASKED),
            ):
                assert answer.status_code == 503
                assert int(answer.headers["retry-after"]) > 0
        events = reader.join()
        assert events[-1] == "[DONE]"
        assert len(events) == 121, "the running stream has all its tokens"
        assert json.loads(events[-2])["choices"][0]["finish_reason"] == "length"
        assert server.process.wait(60) == 0
        assert not psutil.wait_procs(processes, timeout=5)[1], "no process outlives the service"
        assert "Traceback" not in server.log


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
