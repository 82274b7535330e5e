"""The breaker in the way of calls: while it is open, the baseline answers all of them."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

from kvant.gateway.answers import breaker
from kvant.gateway.answers.breaker import Outcome, State
from kvant.gateway.answers.settings import Breaker
from kvant.gateway.call import Call, Served
from kvant.gateway.roles import Router
from kvant.rollout.evidence import BASELINE

log = logging.getLogger("kvant.gateway.answers")

NOT_ITS_FAULT = ("cancelled", "client", "refused", "draining", "internal")
"""Errors of `Served` that say nothing of the arm."""
KEPT = 500
"""Newest answers of the baseline that say how often abnormal ones are usual."""


class Fuse:
    """A `Router` around another, and the `Watcher` that learns how its calls end."""

    def __init__(self, inner: Router, settings: Breaker, now: Callable[[], float]) -> None:
        self._inner, self._settings, self._now = inner, settings, now
        self._states: dict[str, State] = {}
        self._abnormal: deque[bool] = deque(maxlen=KEPT)

    def choose(self, call: Call) -> str:
        arm = self._inner.choose(call)
        if arm == BASELINE:
            return arm
        self._states[arm], admitted = breaker.admit(self._state(arm), call.id, self._now(), self._settings)
        return arm if admitted else BASELINE

    def began(self, call: Call, arm: str) -> None:
        if arm != BASELINE:
            self._states[arm] = breaker.began(self._state(arm), call.id, self._now())

    def ended(self, served: Served) -> None:
        arm = served.arm
        if arm == BASELINE:
            return
        before = self._state(arm)
        after = breaker.ended(
            before, served.call.id, outcome(served), self._now(), self._settings, self.usual
        )
        self._states[arm] = after
        if after.until != before.until:
            said = "closed" if after.until is None else f"open for {after.wait:g} s: {after.why}"
            log.warning("breaker of arm %s: %s", arm, said)

    def learn(self, abnormal: bool) -> None:
        """Whether a finished answer of the baseline had a sign: a model may loop by itself."""
        self._abnormal.append(abnormal)

    @property
    def usual(self) -> float:
        """Share of the baseline's answers that have a sign."""
        return sum(self._abnormal) / max(len(self._abnormal), 1)

    def phase(self, arm: str) -> str:
        """closed, open or half-open."""
        return self._state(arm).phase(self._now())

    def _state(self, arm: str) -> State:
        return self._states.get(arm, State())


def outcome(served: Served) -> Outcome:
    if served.tripped:
        return Outcome.TRIPPED
    if 400 <= served.status < 500 or served.error in NOT_ITS_FAULT:
        return Outcome.NEITHER
    if not (served.error or served.status >= 500):
        return Outcome.GOOD
    # An arm that is not up answers nothing, well or badly.
    return Outcome.NEITHER if served.absent else Outcome.FAILED
