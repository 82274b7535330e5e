"""The life of a service: loading, ready, draining; or failed. A pure state machine, no clock and no I/O."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from kvant.http import envelope
from kvant.http.envelope import Refusal


class Phase(Enum):
    LOADING = "loading"
    READY = "ready"
    DRAINING = "draining"
    FAILED = "failed"


@dataclass(frozen=True)
class State:
    """Where the service is in its life, and why."""

    phase: Phase = Phase.LOADING
    reason: str = "the engine is starting"

    def waiting(self, reason: str) -> State:
        """Still loading, for another reason."""
        return State(Phase.LOADING, reason) if self.phase is Phase.LOADING else self

    def up(self) -> State:
        """The engine runs, is verified, and has answered once."""
        return State(Phase.READY, "") if self.phase is Phase.LOADING else self

    def drain(self) -> State:
        if self.phase is Phase.FAILED:
            return self
        return State(Phase.DRAINING, "the service is shutting down; running requests finish")

    def fail(self, reason: str) -> State:
        return State(Phase.FAILED, reason)

    @property
    def ready(self) -> bool:
        return self.phase is Phase.READY

    def refusal(self) -> Refusal | None:
        """What a request for the API gets in this phase; None when it may go on."""
        return None if self.ready else envelope.unavailable(self.phase.value, self.reason)
