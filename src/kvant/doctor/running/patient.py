"""What the checks of a running service look at; whatever could not be had is an error's words instead."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from kvant.config import Settings
from kvant.doctor.running import load as loads
from kvant.doctor.running import reading as readings
from kvant.doctor.running.load import Load
from kvant.doctor.running.reading import Reading
from kvant.errors import EngineError
from kvant.launch.service import Service
from kvant.telemetry.scrape import Scrape

T = TypeVar("T")

MOST_LOG = 4 << 20
PATIENCE = 120.0
"""Seconds without a byte after which the service counts as hung."""
_CUT = re.compile(r"took longer than (\S+), (\S+ s)\b")
"""What our service and our gateway say of a request that they end: the field, and its value."""


@dataclass(frozen=True)
class Patient:
    """A service, asked and loaded. A field that is text says why it could not be had."""

    url: str
    service: Service | str
    status: int | None
    """Of /ready; None where nothing answers."""
    ready: dict[str, Any]
    load: Load | str
    reading: Reading | str
    baseline: Service | None = None
    settings: Settings | None = None
    """What it was meant to be started with."""
    log: str | None = None
    idle: Scrape | None = None
    """What /metrics showed where the load failed."""

    @classmethod
    def ask(
        cls,
        url: str,
        *,
        metrics: str | None = None,
        model: str | None = None,
        baseline: str | None = None,
        settings: Settings | None = None,
        log: Path | None = None,
    ) -> Patient:
        """Takes about a minute. `EngineError` only where the baseline does not answer."""
        beside = Service.find(baseline, model=model) if baseline else None
        service = _try(lambda: replace(Service.find(url, metrics, model), patience=PATIENCE))
        status, ready = _ready(url)
        said = log.read_bytes()[-MOST_LOG:].decode("utf-8", "replace") if log else None
        found = cls(url, service, status, ready, "", "", beside, settings, said)
        if isinstance(service, str):
            return found
        load = _try(partial(loads.load, service))
        shown = _try(service.scrape) if isinstance(load, str) else None
        found = replace(found, load=load, idle=None if isinstance(shown, str) else shown)
        return found if found.hangs else replace(found, reading=_try(partial(readings.read, service)))

    @property
    def hangs(self) -> bool:
        """Whether it took a request and did not answer: it is not asked again."""
        late = isinstance(self.load, str) and ("Timeout" in self.load or "timed out" in self.load)
        return late and not cut(self.load)

    @property
    def scrape(self) -> Scrape | None:
        """The newest."""
        return self.idle if isinstance(self.load, str) else self.load.after.scrape

    def lacks(self, what: str) -> str:
        """Why something was not measured, in few words: the finding that is named says the rest."""
        if not isinstance(self.service, str):
            return f"needs {what}, which failed: see timeouts"
        if self.status is None:
            return "not measured: the service does not answer"
        return "not measured: see start"

    def facts(self) -> dict[str, Any]:
        build = dict(self.scrape.labels("kvant_build_info")) if self.scrape else {}
        return {"url": self.url, "ready": self.ready, "build": build}


def cut(why: Any) -> tuple[str, str] | None:
    """Which field ended a request, and its value; None where an error is of something else."""
    found = _CUT.search(why) if isinstance(why, str) else None
    return (found[1], found[2]) if found else None


def _try(ask: Callable[[], T]) -> T | str:
    try:
        return ask()
    except EngineError as error:
        return str(error)


def _ready(url: str) -> tuple[int | None, dict[str, Any]]:
    plain = Service(url.rstrip("/").removesuffix("/v1"), "", None, "")
    try:
        return plain.ready()
    except EngineError:
        return None, {}
