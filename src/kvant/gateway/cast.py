"""The roles that are taken, called so that none of them can delay or break a call."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from kvant.gateway.call import Call, Served
from kvant.gateway.roles import Guard, Router, Sentinel, Sign, Watcher

log = logging.getLogger("kvant.gateway")
T = TypeVar("T")

BASELINE = "baseline"


class Always:
    """The router of a gateway that releases nothing: every call to one arm."""

    def __init__(self, arm: str = BASELINE) -> None:
        self._arm = arm

    def choose(self, call: Call) -> str:
        return self._arm


@dataclass
class Cast:
    """Who takes part besides the proxy. A role that raises is logged by the name of its error alone,
    because messages may hold prompts."""

    router: Router = field(default_factory=Always)
    guard: Guard | None = None
    watchers: list[Watcher] = field(default_factory=list)

    def choose(self, call: Call) -> str:
        return _safely("router", lambda: self.router.choose(call), BASELINE)

    def began(self, call: Call, arm: str) -> None:
        for watcher in self.watchers:
            _safely("watcher", lambda one=watcher: one.began(call, arm), None)  # type: ignore[misc]

    def ended(self, served: Served) -> None:
        for watcher in self.watchers:
            _safely("watcher", lambda one=watcher: one.ended(served), None)  # type: ignore[misc]

    def watch(self, call: Call, arm: str) -> Sentinel | None:
        guard = self.guard
        return None if guard is None else _safely("guard", lambda: guard.watch(call, arm), None)

    def refuge(self, call: Call, arm: str) -> str | None:
        guard = self.guard
        return None if guard is None else _safely("guard", lambda: guard.refuge(call, arm), None)


def read(sentinel: Sentinel, text: str) -> Sign:
    """What the sentinel says; one that fails has nothing to say."""
    return _safely("sentinel", lambda: sentinel.read(text), Sign.CLEAR)


def _safely(role: str, ask: Callable[[], T], otherwise: T) -> T:
    try:
        return ask()
    except Exception as error:
        log.error("the %s failed with %s", role, type(error).__name__)
        return otherwise
