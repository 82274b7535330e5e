"""The command: limits that are wrong, statuses, and a whole list against a server that runs."""

from __future__ import annotations

import json
import re
import signal
import time
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kvant.errors import ConfigError
from kvant.launch import settings
from tests.launch.stub import Stub, listening, serving


def test_the_example_reads_back_as_the_defaults(tmp_path: Path, kvant_command) -> None:
    file = tmp_path / "limits.yaml"
    file.write_text(kvant_command("launch-check", "--example").out)
    assert settings.load(file) == settings.Settings()


def test_a_wrong_limit_is_named_with_its_line(tmp_path: Path, kvant_command) -> None:
    file = tmp_path / "limits.yaml"
    file.write_text("speed:\n  tpott: 1\n")
    done = kvant_command("launch-check", "--url", "http://127.0.0.1:9", "--limits", str(file))
    assert done.status == 3
    assert "limits.yaml:2: speed.tpott: unknown field; did you mean tpot?" in done.err


@pytest.mark.parametrize(
    ("text", "found"), [("90", 90), ("90s", 90), ("30m", 1800), ("8h", 28800), ("0.5h", 1800)]
)
def test_times(text: str, found: float) -> None:
    assert settings.seconds(text, "--soak") == found


@pytest.mark.parametrize("text", ["", "m", "-1s", "1d", "nan", "inf", "999h"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--soak .*is no time"):
        settings.seconds(text, "--soak")


def test_misuse_looks_like_no_verdict(kvant_command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVANT_HOME", str(tmp_path))
    assert kvant_command("launch-check").status == 3
    assert kvant_command("launch-check", "--no-such-flag").status == 3
    assert kvant_command("launch-check", "--url", "http://127.0.0.1:9").status == 3
    assert kvant_command("launch-check", "--url", "http://127.0.0.1:9", "--suites", "nedle").status == 3


def test_a_list_ends_with_its_page_and_its_status(
    kvant_command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVANT_HOME", str(tmp_path / "home"))
    limits = tmp_path / "limits.yaml"
    limits.write_text("speed: {prompt: 16, answer: 8, rounds: 1}\nsoak: {seconds: 1, streams: 1}\n")
    out, page = tmp_path / "lc.json", tmp_path / "lc.html"
    with serving(Stub("stop")) as service:
        done = kvant_command(
            "launch-check", "--url", service.url, "--limits", str(limits), "--suites", "none",
            "--json", str(out), "--html", str(page),
        )  # fmt: skip
    assert done.status == 1, done.out + done.err
    _, missing = done.out.split("not passed:\n")
    assert missing.startswith("  fail          interface: stop strings\n")
    assert "  not run       alerts: test alert\n" in missing
    assert missing.endswith("verdict: fail\n")
    found = json.loads(out.read_text())
    assert found["verdict"] == "fail"
    assert [step["name"] for step in found["steps"]] == [
        "interface", "memory", "speed", "gate fidelity", "gate needle", "gate golden", "soak", "alerts",
    ]  # fmt: skip
    assert "stop strings" in page.read_text()


def test_a_list_that_is_interrupted_writes_what_is_done_and_says_how_to_go_on(
    kvant_command, kvant_process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, limits = tmp_path / "home", tmp_path / "limits.yaml"
    monkeypatch.setenv("KVANT_HOME", str(home))
    limits.write_text("speed: {prompt: 16, answer: 8, rounds: 1}\nsoak: {seconds: 600, streams: 1}\n")
    out, page = tmp_path / "lc.json", tmp_path / "lc.html"
    with serving(Stub()) as service:
        words = ["launch-check", "--url", service.url, "--limits", str(limits), "--suites", "none"]
        words += ["--json", str(out), "--html", str(page)]
        process = kvant_process(*words)
        deadline = time.monotonic() + 120
        while not list(home.glob("launch/*/gate-golden.json")) and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(1)  # within the soak
        process.send_signal(signal.SIGINT)
        shown, told = process.communicate(timeout=60)
        assert process.returncode == 130, shown + told
        assert told.endswith("interrupted: what is done is kept; run the same again to go on\n")
        steps = {step["name"]: step for step in json.loads(out.read_text())["steps"]}
        assert (steps["interface"]["verdict"], steps["interface"]["earlier"]) == ("pass", "")
        assert {steps[name]["verdict"] for name in ("soak", "alerts")} == {"not run"}
        assert "interrupted before it was done" in shown
        limits.write_text(limits.read_text().replace("600", "1"))
        again = kvant_command(*words)
    assert again.status != 130
    assert re.search(r"^interface +pass +\d+ s, of an earlier run \(2\d+-\d+-\d+ ", again.out, re.MULTILINE)
    assert re.search(r"^soak +\w+ +\d+ s$", again.out, re.MULTILINE)
    assert page.read_text().count("<td>now</td>") == 5  # the soak, what was left out, and the alerts


def test_an_alert_url_that_is_none_is_refused_and_not_shown(kvant_command) -> None:
    done = kvant_command("launch-check", "--url", "http://127.0.0.1:9", "--alert-url", "secret.example/T0")
    assert done.status == 3
    assert "alert_url of the limits: begins with neither http://" in done.err
    assert "T0" not in done.err


def test_a_test_alert_goes_where_the_limits_say_and_its_address_is_not_reported(
    kvant_command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVANT_HOME", str(tmp_path / "home"))
    got: list[str] = []

    async def receive(request: Request) -> Response:
        got.append(request.url.path)
        return Response(status_code=200)

    limits, out = tmp_path / "limits.yaml", tmp_path / "lc.json"
    with listening(Starlette(routes=[Route("/secret", receive, methods=["POST"])])) as url:
        limits.write_text(
            "speed: {prompt: 16, answer: 8, rounds: 1}\nsoak: {seconds: 1, streams: 1}\n"
            f"alert_url: {url}/secret\n"
        )
        with serving(Stub()) as service:
            done = kvant_command(
                "launch-check", "--url", service.url, "--limits", str(limits), "--suites", "none",
                "--json", str(out),
            )  # fmt: skip
    assert got == ["/secret"]
    assert "test alert                  answered 200" in done.out
    assert "/secret" not in out.read_text()
