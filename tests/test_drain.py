"""On SIGTERM what runs is finished and what comes refused. Among the last: it ends the server tests share."""

from __future__ import annotations

import json
import signal

import httpx
import psutil

from tests.e2e.fixtures import server, start
from tests.e2e.reader import ASKED, Reader
from tests.e2e.server import Server, until

__all__ = ["server", "start"]


def test_a_service_drains_on_sigterm(server: Server) -> None:
    processes = server.processes()
    assert len(processes) >= 3, "server, engine and worker"
    said = len(server.log)
    reader = Reader(server, tokens=120)
    with httpx.Client(base_url=server.url, timeout=30) as kept:
        assert kept.get("/v1/models").status_code == 200
        server.process.send_signal(signal.SIGTERM)
        until(lambda: server.get("/ready").status_code == 503, 5)
        # Alive, and refusals on old and new connections alike.
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
    assert "Traceback" not in server.log[said:]
