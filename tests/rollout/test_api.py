"""The rollout over HTTP, and the command that steers it: a real server, a real client."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from kvant.rollout.api import routes
from kvant.rollout.controller import Controller
from kvant.rollout.evidence import Comparison
from tests.cli.conftest import Kvant, kvant_command
from tests.ending import running
from tests.rollout.conftest import Clock, Opener, RedisServer, quick

__all__ = ["kvant_command"]

SECRET = "kv-admin-7"


class Door:
    """Stands for the gateway: checks the key and leaves its id."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        request = Request(scope)
        if request.headers.get("authorization") != f"Bearer {SECRET}":
            return await JSONResponse({"error": {}}, 401)(scope, receive, send)
        request.state.key = "ops"
        return await self.app(scope, receive, send)


def serve(controller: Controller) -> Iterator[str]:
    app = Starlette(routes=routes(controller))
    config = uvicorn.Config(Door(app), log_level="error", ws="none", lifespan="off")
    with socket.create_server(("127.0.0.1", 0)) as listener, running(config, listener):
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def controller(tmp_path: Path, opened: Opener) -> Controller:
    return Controller(quick(), opened(str(tmp_path / "rollout.db")), "low-bit [4.1]", monotonic=Clock())


@pytest.fixture
def url(controller: Controller, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("KVANT_ADMIN_KEY", SECRET)
    yield from serve(controller)


def post(url: str, command: str) -> httpx.Response:
    return httpx.post(f"{url}/rollout/{command}", headers={"Authorization": f"Bearer {SECRET}"})


def test_a_rollout_by_http_names_the_key_that_did_it(url: str, controller: Controller):
    assert post(url, "start").json()["phase"] == "shadow"
    assert post(url, "promote").json()["weight"] == 0.05
    shown = httpx.get(f"{url}/rollout", headers={"Authorization": f"Bearer {SECRET}"}).json()
    assert shown == controller.status()
    assert [entry["who"] for entry in shown["history"]] == ["ops", "ops"]
    assert post(url, "rollback").json()["phase"] == "rolled_back"


def test_what_makes_no_sense_now_is_a_conflict_with_the_reason(url: str):
    refused = post(url, "promote")
    assert refused.status_code == 409
    assert refused.headers["content-type"] == "application/problem+json"
    assert refused.json() == {
        "type": "about:blank", "title": "Conflict", "status": 409,
        "detail": "promote: this candidate has not been started",
    }  # fmt: skip


@pytest.mark.parametrize("path", ["/rollout/halt", "/rollout/start/x", "/rollout/start"])
def test_only_the_commands_there_are_and_only_by_post(url: str, path: str):
    answer = httpx.get(f"{url}{path}", headers={"Authorization": f"Bearer {SECRET}"})
    assert answer.status_code in (404, 405)
    assert httpx.get(f"{url}/rollout").status_code == 401


def test_a_lost_store_is_unavailable_and_says_when_to_come_back(redis_server: RedisServer, opened: Opener):
    for url in serve(Controller(quick(), opened(redis_server.url), "low-bit")):
        post(url, "start")
        redis_server.kill()
        refused = post(url, "promote")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        rolled_back = post(url, "rollback")
        assert (rolled_back.status_code, rolled_back.json()["phase"]) == (200, "rolled_back")
        assert "Redis" in rolled_back.json()["trouble"]


def test_the_command_shows_a_rollout_and_steers_it(url: str, controller: Controller, kvant_command: Kvant):
    def rollout(*words: str) -> str:
        result = kvant_command("rollout", *words, "--url", url)
        assert result.status == 0, result.err
        return result.out

    assert "low-bit [4.1]: shadow, 0 of traffic" in rollout("start")
    for _ in range(5):
        controller.observe(Comparison(0.0, 0.004, 0.97, 100))
    controller.tick()
    shown = rollout("status")
    assert "0 of 10 s, 5 of 10 compared, 0 of 0 served; next 0.05" in shown
    assert "hold: 5 of 10 requests compared" in shown
    assert "0.0040 / 5" in shown
    assert "ops: started" in shown
    assert "canary, 0.05 of traffic" in rollout("promote")
    assert "canary, paused" in rollout("pause")
    assert "paused" not in rollout("resume").splitlines()[0]
    assert json.loads(rollout("status", "--json")) == controller.status()
    assert "rolled_back, 0 of traffic" in rollout("rollback")
    assert "earlier" not in rollout("status"), "all are shown"
    rollout("start")
    newest = rollout("status").splitlines()
    assert newest[-6] == "1 earlier change: kvant rollout status --all"
    assert "paused" not in newest[-6]
    every = rollout("status", "--all").splitlines()
    assert every[-5:] == newest[-5:]
    assert every[-6].endswith("ops: started")


def test_the_command_names_what_went_wrong(url: str, kvant_command: Kvant, monkeypatch: pytest.MonkeyPatch):
    refused = kvant_command("rollout", "promote", "--url", url)
    assert (refused.status, refused.err) == (2, "error: promote: this candidate has not been started\n")
    monkeypatch.delenv("KVANT_ADMIN_KEY")
    assert (
        "wants an administrator's key, and KVANT_ADMIN_KEY is not set"
        in kvant_command("rollout", "status", "--url", url).err
    )
    nobody = kvant_command("rollout", "status", "--url", "http://127.0.0.1:9")
    assert nobody.status == 2
    assert nobody.err.startswith("error: --url http://127.0.0.1:9: no gateway answers")
