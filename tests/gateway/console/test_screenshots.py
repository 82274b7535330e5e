"""The pictures of docs/console.md, taken where KVANT_SCREENSHOTS names a folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.gateway.console.conftest import Window
from tests.gateway.engine import Engine
from tests.gateway.running import HELLO
from tests.gateway.test_release import command, gateway, status

FOLDER = os.environ.get("KVANT_SCREENSHOTS")
MOST = 150_000
"""Bytes of one picture."""
PHONE = {"viewport": {"width": 360, "height": 900}, "color_scheme": "dark", "device_scale_factor": 2}
DESK = {"viewport": {"width": 1000, "height": 700}, "color_scheme": "light"}
STEP = {"dwell": 600.0, "served": 200, "compared": 200, "proof": ["divergence", "disagreement"]}


def taken(page: Any, name: str, **options: Any) -> None:
    image = pytest.importorskip("PIL.Image", reason="pillow is not installed")
    # The name of the other language would be boxes where no font has it.
    page.evaluate("document.getElementById('language').hidden = true")
    file = Path(str(FOLDER)) / f"console-{name}.png"
    page.screenshot(path=file, **options)
    with image.open(file) as found:
        found.quantize(64).save(file, optimize=True)
    assert file.stat().st_size < MOST


@pytest.mark.skipif(FOLDER is None, reason="KVANT_SCREENSHOTS names no folder")
def test_pictures_for_the_documentation(window: Callable[..., Window], tmp_path: Path) -> None:
    plan = {
        "state": str(tmp_path / "rollout.db"),
        "shadow": {"weight": 0.0, **STEP, "served": 0},
        "canary": [{"weight": 0.25, **STEP}, {"weight": 0.5, **STEP}],
    }
    with (
        Engine() as baseline,
        Engine(logprob=-0.53) as candidate,
        gateway(tmp_path, baseline, candidate, rollout=plan) as running,
        httpx.Client(timeout=20) as client,
    ):
        command(running, "start")
        command(running, "promote")
        sent = 0
        while (now := status(running))["counts"]["compared"]["total"] < 60:
            assert now["phase"] == "canary", now["reason"]
            sent += 1
            body = {"messages": HELLO, "user": f"user-{sent}", "stream": True, "max_tokens": 16}
            answer = client.post(f"{running.url}/v1/chat/completions", json={"model": "stub", **body})
            assert answer.status_code == 200
        for name, options in (("desk", DESK), ("phone", PHONE)):
            page = window(**options).page
            page.goto(f"{running.url}/console")
            page.locator("#phase").get_by_text("Canary").wait_for()
            taken(page, name, full_page=name == "desk")
        page = window(**DESK).page
        page.goto(f"{running.url}/console")
        page.get_by_role("button", name="Roll back").click()
        taken(page, "rollback")
