"""A real Chromium, driven by playwright."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("there is no chromium (Debian: chromium)")
    with playwright.sync_playwright() as running:
        # Chromium has no sandbox for root.
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = running.chromium.launch(executable_path=CHROMIUM, args=options)
        yield browser
        browser.close()


class Window:
    """A page, with all it complained of and asked for."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.hosts: set[str] = set()
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: (self.complaints.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: self.hosts.add(request.url.split("/")[2]))

    def _said(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def fits(self) -> bool:
        """Whether nothing has to be scrolled sideways for."""
        return bool(
            self.page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        )


@pytest.fixture
def window(browser: Any) -> Iterator[Callable[..., Window]]:
    """Opens one; arguments are those of a context (`viewport`, `color_scheme`, `locale`)."""
    contexts = []

    def opened(**options: Any) -> Window:
        context = browser.new_context(locale="en-GB", **options)
        context.set_default_timeout(8_000)
        contexts.append(context)
        return Window(context.new_page())

    yield opened
    for one in contexts:
        one.close()
