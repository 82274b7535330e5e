"""A web page of somebody else's must not steer a gateway that asks for no keys."""

from __future__ import annotations

from pathlib import Path

import httpx

from tests.gateway.engine import Engine
from tests.gateway.test_release import gateway, status

ELSEWHERE = "http://evil.example"


def test_pages_of_other_sites_are_refused(tmp_path: Path) -> None:
    with (
        Engine() as baseline,
        Engine() as candidate,
        gateway(tmp_path, baseline, candidate) as running,
        httpx.Client() as client,
    ):
        own = f"127.0.0.1:{running.port}"
        refused = [
            {"host": "evil.example"},
            {"host": f"evil.example:{running.port}"},
            {"host": "127.0.0.1.evil.example"},
            {"host": "[::1"},
            {"origin": ELSEWHERE},
            {"origin": "null"},
            {"origin": "http://127.0.0.1:1"},
            {"origin": f"http://{own}.evil.example"},
            {"content-type": "text/plain"},
            {"content-type": "application/x-www-form-urlencoded; charset=utf-8"},
        ]
        for headers in refused:
            for method, path in (("POST", "/rollout/start"), ("GET", "/console/data"), ("GET", "/rollout")):
                answer = client.request(method, running.url + path, headers=headers)
                assert answer.status_code == 403, headers
                assert answer.json()["error"]["message"]
        assert status(running)["phase"] == "idle"
        let_in = [{}, {"origin": f"http://{own}", "content-type": "application/json"}]
        let_in.append({"host": "localhost", "origin": "http://localhost"})
        for headers in let_in:
            for name in ("start", "rollback"):
                assert client.post(f"{running.url}/rollout/{name}", headers=headers).status_code == 200


def test_the_console_serves_its_own_files_alone(tmp_path: Path) -> None:
    with Engine() as baseline, Engine() as candidate, gateway(tmp_path, baseline, candidate) as running:
        assert httpx.get(f"{running.url}/console/main.js").status_code == 200
        for path in ("/console/static", "/console/../keys", "/console/%2e%2e/view.py", "/consoles"):
            assert httpx.get(running.url + path).status_code == 404
