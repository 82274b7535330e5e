"""The pictures of docs/console.md, taken where KVANT_SCREENSHOTS names a folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.gateway.console.conftest import Window
from tests.gateway.engine import Engine
from tests.gateway.running import HELLO
from tests.gateway.test_release import command, gateway, status

FOLDER = os.environ.get("KVANT_SCREENSHOTS")
MOST = 150_000
PHONE = {"viewport": {"width": 360, "height": 780}, "color_scheme": "dark"}
DESK = {"viewport": {"width": 1100, "height": 900}, "color_scheme": "light"}
STEP = {"dwell": 600.0, "served": 200, "compared": 200, "proof": ["divergence", "disagreement"]}


@pytest.mark.skipif(FOLDER is None, reason="KVANT_SCREENSHOTS names no folder")
def test_pictures_for_the_documentation(window: Callable[..., Window], tmp_path: Path) -> None:
    assert FOLDER is not None
    plan = {
        "state": str(tmp_path / "rollout.db"),
        "shadow": {"weight": 0.0, **STEP, "served": 0},
        "canary": [{"weight": 0.25, **STEP}, {"weight": 0.5, **STEP}],
    }
    with (
        Engine() as baseline,
        Engine(logprob=-0.502, per_token=0.0018, first=0.003) as candidate,
        gateway(tmp_path, baseline, candidate, rollout=plan) as running,
        httpx.Client(timeout=20) as client,
    ):
        command(running, "start")
        command(running, "promote")
        sent = 0
        while status(running)["counts"]["compared"]["total"] < 40:
            sent += 1
            body = {"model": "stub", "messages": HELLO, "user": f"user-{sent}", "stream": True}
            assert client.post(f"{running.url}/v1/chat/completions", json=body).status_code == 200
        for name, options in (("desk", DESK), ("phone", PHONE)):
            page = window(**options).page
            page.goto(f"{running.url}/console")
            page.locator("#phase").get_by_text("Canary").wait_for()
            file = Path(FOLDER) / f"console-{name}.png"
            page.screenshot(path=file, full_page=name == "desk")
            assert file.stat().st_size < MOST
        page = window(**DESK).page
        page.goto(f"{running.url}/console")
        page.get_by_role("button", name="Roll back").click()
        page.screenshot(path=Path(FOLDER) / "console-rollback.png")
