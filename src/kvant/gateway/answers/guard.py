"""`kvant.gateway.roles.Guard`: the candidate's answers are read, the baseline takes over."""

from __future__ import annotations

from kvant.gateway.answers.sentinel import Reading, readers
from kvant.gateway.answers.settings import Breaker
from kvant.gateway.call import Call
from kvant.rollout.evidence import BASELINE


class CandidateGuard:
    """The baseline is not guarded: there is nothing to fall back to."""

    def __init__(self, settings: Breaker) -> None:
        self._on = settings.watch

    def watch(self, call: Call, arm: str) -> Reading | None:
        """A sentinel, where the arm is not the baseline and the call asks for text."""
        if not self._on or arm == BASELINE or not call.generates:
            return None
        return Reading(readers(call.body))

    def refuge(self, call: Call, arm: str) -> str | None:
        return None if arm == BASELINE else BASELINE
