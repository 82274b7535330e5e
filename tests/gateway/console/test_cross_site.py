"""The same from a real browser on another site, which sends what browsers send."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.gateway.console.conftest import Window
from tests.gateway.engine import Engine
from tests.gateway.test_release import gateway, status


def test_another_sites_page_cannot_start_a_release(window: Callable[..., Window], tmp_path: Path) -> None:
    with Engine() as baseline, Engine() as candidate, gateway(tmp_path, baseline, candidate) as running:
        page = window().page
        page.goto(f"{baseline.url}/health")
        sent = page.evaluate(
            "url => fetch(url, {method: 'POST', mode: 'no-cors'}).then(answer => answer.type)",
            f"{running.url}/rollout/start",
        )
        assert sent == "opaque"
        page.set_content(f"<form method=post action={running.url}/rollout/start><button>win</button></form>")
        with page.expect_response("**/rollout/start") as answered:
            page.get_by_role("button").click()
        assert answered.value.status == 403
        assert status(running)["phase"] == "idle"
