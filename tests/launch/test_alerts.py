"""The shipped rules read, fire on planted series, watch what a real server shows; an alert arrives."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from kvant.errors import EngineError
from kvant.launch import alerts, rules
from kvant.launch.result import Item, Verdict
from kvant.launch.service import Service
from tests.e2e.server import Server
from tests.launch import recorded
from tests.launch.stub import Stub, listening, serving

needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not installed (Debian: prometheus)"
)


def by_name(items: list[Item] | tuple[Item, ...]) -> dict[str, Item]:
    return {item.name: item for item in items}


@needs_promtool
@pytest.mark.parametrize(
    "words", [("check", "rules", "kvant.rules.yml"), ("test", "rules", "kvant.rules.test.yml")]
)
def test_promtool_takes_the_shipped_rules_and_their_tests(words: tuple[str, ...]) -> None:
    done = subprocess.run(
        ["promtool", *words], cwd=alerts.SHIPPED.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_is_fired_by_a_test() -> None:
    tests = alerts.SHIPPED.with_suffix(".test.yml").read_text()
    assert [rule.name for rule in rules.read(alerts.SHIPPED) if f'"{rule.name}"' not in tests] == []


@needs_promtool
def test_a_real_server_shows_all_that_is_watched_and_fires_nothing(server: Server) -> None:
    step = alerts.run(Service.find(server.url), None, None)
    found = by_name(list(step.items))
    assert found["rules watch"].verdict is Verdict.PASS, found
    assert found["rules silent"].verdict is Verdict.PASS, found
    assert found["rules fire"].verdict is Verdict.PASS, found
    assert found["test alert"].verdict is Verdict.NOT_RUN
    assert step.verdict is Verdict.NOT_RUN  # not run is not pass


@needs_promtool
@pytest.mark.parametrize(
    ("changes", "alert"),
    [({"kvant_ready": 0.0}, "KvantNotReady"), ({"vllm__num_requests_waiting": 90.0}, "KvantQueueLong")],
)
def test_what_would_fire_now_is_named(changes: dict[str, float], alert: str) -> None:
    with serving(Stub(metrics=recorded.text(**changes))) as service:
        item = by_name(list(alerts.run(service, None, None).items))["rules silent"]
    assert (item.verdict, item.found) == (Verdict.FAIL, f"would fire as things are: {alert}")


def test_rules_that_watch_what_no_server_shows_fail(tmp_path: Path) -> None:
    file = tmp_path / "mine.yml"
    file.write_text("groups: [{name: g, rules: [{alert: A, expr: kvant_no_such_thing > 1}]}]")
    with serving(Stub()) as service:
        item = alerts.run(service, file, None).items[0]
    assert (item.verdict, "kvant_no_such_thing" in item.found) == (Verdict.FAIL, True)
    file.write_text("groups: []")
    with pytest.raises(EngineError, match="holds no alert"):
        rules.read(file)


@pytest.mark.parametrize(("status", "verdict"), [(200, Verdict.PASS), (500, Verdict.FAIL)])
def test_an_alert_arrives_in_alertmanagers_form(status: int, verdict: Verdict) -> None:
    got: list[object] = []

    async def receive(request) -> Response:
        got.append(await request.json())
        return Response(status_code=status)

    app = Starlette(routes=[Route("/api/v2/alerts", receive, methods=["POST"])])
    service = Service("http://127.0.0.1:8080", "m", None, "http://127.0.0.1:8080/metrics")
    with listening(app) as url:
        assert alerts._post(f"{url}/api/v2/alerts", service).verdict is verdict
    (((alert,),),) = (got,)
    assert alert["labels"]["alertname"] == "KvantLaunchCheck"
    assert alert["startsAt"] < alert["endsAt"]


def test_a_webhook_that_is_not_there_fails() -> None:
    service = Service("http://127.0.0.1:8080", "m", None, "")
    assert alerts._post("http://127.0.0.1:9/x", service).verdict is Verdict.FAIL
