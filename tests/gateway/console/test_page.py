"""The console in a real browser, before a real gateway."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import httpx
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from kvant.gateway.keys.file import changing
from kvant.gateway.keys.key import made
from kvant.gateway.keys.ring import Keyring
from tests.gateway.console.conftest import Window
from tests.gateway.engine import Engine
from tests.gateway.running import HELLO
from tests.gateway.test_release import command, gateway, status, traffic

Open = Callable[..., Window]
PHONE = {"viewport": {"width": 360, "height": 740}, "device_scale_factor": 2}
DRAWN = "[data-plot=first_token] path.candidate.middle[d^=M]"
HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script> \u202e"


class Unscoring(Engine):
    """Scores no given text, so that answers are compared word by word."""

    async def _tokenize(self, request: Request) -> Response:
        return JSONResponse({})


def test_a_release_is_shown_and_rolled_back(window: Open, tmp_path: Path) -> None:
    with Engine() as baseline, Engine() as candidate, gateway(tmp_path, baseline, candidate) as running:
        seen = window()
        page = seen.page
        page.goto(f"{running.url}/console")
        phase = page.locator("#phase")
        phase.get_by_text("Not started").wait_for()
        page.get_by_role("button", name="Start").click()
        page.get_by_role("dialog").get_by_role("button", name="Start").click()
        phase.get_by_text("Shadow, 0% of the traffic").wait_for()
        traffic(running, lambda: status(running)["phase"] == "full")
        phase.get_by_text("Full, 100% of the traffic").wait_for()
        running.post({"messages": HELLO, "stream": True, "user": "user-1"})

        divergence = page.locator("[data-quantity=divergence]").get_by_role("meter").nth(1)
        assert divergence.get_attribute("aria-valuenow") == divergence.get_attribute("aria-valuemax")
        page.locator(DRAWN).wait_for(state="attached")
        assert "candidate" in page.locator("[data-plot=divergence] svg").get_attribute("aria-label").lower()
        assert page.locator("[data-arm]").count() == 2
        assert page.locator("#history li").count() == 3

        # By keyboard: the first thing in the dialog is the way out, and Escape is no.
        page.get_by_role("button", name="Roll back").focus()
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "confirm_no"
        page.keyboard.press("Escape")
        page.get_by_role("dialog").wait_for(state="hidden")
        assert status(running)["phase"] == "full"
        page.get_by_role("button", name="Roll back").click()
        page.get_by_role("dialog").get_by_role("button", name="Roll back").click()
        at = time.monotonic()
        while status(running)["phase"] != "rolled_back":
            assert time.monotonic() - at < 1
        running.post({"messages": HELLO, "user": "after"})
        assert not [one for one in candidate.requests if one["body"].get("user") == "after"]
        phase.get_by_text("Rolled back").wait_for()
        assert page.get_by_role("button", name="Roll back").is_disabled()

        page.reload()
        page.locator(DRAWN).wait_for(state="attached")
        assert seen.complaints == []
        assert seen.hosts == {f"127.0.0.1:{running.port}"}


def test_a_phone_reads_it_in_both_languages(window: Open, tmp_path: Path) -> None:
    with Engine() as baseline, Engine() as candidate, gateway(tmp_path, baseline, candidate) as running:
        command(running, "start")
        traffic(running, lambda: status(running)["counts"]["compared"]["total"] > 5)
        seen = window(**PHONE, color_scheme="dark")
        page = seen.page
        page.goto(f"{running.url}/console")
        page.locator("#phase").get_by_text("Shadow").wait_for()
        assert seen.fits()
        page.get_by_role("button", name="中文").click()
        page.locator("#phase").get_by_text("影子").wait_for()
        assert page.locator("html").get_attribute("lang") == "zh-CN"
        assert seen.fits()
        page.get_by_role("button", name="回滚").click()
        assert "基线" in page.get_by_role("dialog").inner_text()
        assert seen.fits()
        languages = page.evaluate(
            "import('/console/words.js').then(({WORDS}) => Object.values(WORDS).map(one => Object.keys(one)))"
        )
        assert languages[0] == languages[1]
        unnamed = page.evaluate(
            "[...document.querySelectorAll('button')].filter(one => !one.textContent.trim()).length"
        )
        assert unnamed == 0
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(19, 21, 25)"
        assert seen.complaints == []


def test_the_page_asks_for_a_key_where_the_gateway_does(window: Open, tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    key, text = made("ops", ("admin",), time.time())
    other, lesser = made("app", ("generate",), time.time())
    with changing(keys) as write:
        write(Keyring([key, other]))
    with (
        Engine() as baseline,
        Engine() as candidate,
        gateway(tmp_path, baseline, candidate, security={"key_file": str(keys)}) as running,
    ):
        assert "content-security-policy" in httpx.get(f"{running.url}/console").headers
        assert httpx.get(f"{running.url}/console/data").status_code == 401
        page = window().page
        page.goto(f"{running.url}/console")
        field = page.get_by_label("Key")
        assert field.get_attribute("type") == "password"
        assert not page.locator("#main").is_visible()
        for wrong, words in (("no key", "API key"), (lesser, "scope admin")):
            field.fill(wrong)
            page.keyboard.press("Enter")
            page.locator("#refused").get_by_text(words).wait_for()
        field.fill(text)
        page.keyboard.press("Enter")
        page.locator("#phase").get_by_text("Not started").wait_for()
        page.reload()
        page.get_by_role("button", name="Start").click()
        page.get_by_role("dialog").get_by_role("button", name="Start").click()
        page.locator("#history").get_by_text(key.id).wait_for()
        assert text not in page.url
        page.get_by_role("button", name="Forget the key").click()
        field.wait_for()


def test_examples_are_text_and_can_be_deleted(window: Open, tmp_path: Path) -> None:
    with (
        Unscoring(writes="the cache is paged. ") as baseline,
        Unscoring(writes=f"{HOSTILE} the cache is paged. ") as candidate,
        gateway(tmp_path, baseline, candidate, audit={"prompts": True}) as running,
    ):
        command(running, "start")
        running.post({"messages": [{"role": "user", "content": f"what? {HOSTILE} indeed"}]})
        seen = window()
        page = seen.page
        page.goto(f"{running.url}/console")
        example = page.locator(".example")
        example.get_by_text("what? <img").wait_for()
        assert example.get_by_text("<script>alert(2)</script>").count() == 2
        assert example.locator("img, script").count() == 0
        example.get_by_role("button", name=re.compile("Delete")).click()
        page.get_by_text("have not parted").wait_for()
        assert httpx.get(f"{running.url}/console/data/examples").json() == []
        assert seen.complaints == []


def test_without_prompt_logging_there_are_no_examples(window: Open, tmp_path: Path) -> None:
    with (
        Unscoring(writes="the cache is paged. ") as baseline,
        Unscoring(writes="another cache. ") as candidate,
        gateway(tmp_path, baseline, candidate) as running,
    ):
        command(running, "start")
        traffic(running, lambda: status(running)["counts"]["compared"]["total"] > 0)
        page = window().page
        page.goto(f"{running.url}/console")
        page.get_by_text("audit.prompts is off").wait_for()
        assert page.locator(".example").count() == 0
        assert httpx.get(f"{running.url}/console/data/examples").json() == []


def test_a_gateway_that_refuses_or_is_gone_is_said_to(window: Open, tmp_path: Path) -> None:
    with Engine() as baseline, Engine() as candidate:
        page = window().page
        with gateway(tmp_path, baseline, candidate) as running:
            command(running, "start")
            page.goto(f"{running.url}/console")
            page.get_by_role("button", name="Pause").click()
            command(running, "rollback")
            page.get_by_role("dialog").get_by_role("button", name="Pause").click()
            page.get_by_role("alert").get_by_text("nothing is under way").wait_for()
        page.get_by_text("does not answer").wait_for()
