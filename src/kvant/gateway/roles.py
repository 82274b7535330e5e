"""Who takes part in a call besides the proxy. Each role is optional; the proxy knows no others."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Protocol

from kvant.gateway.call import Call, Served


class Router(Protocol):
    """Decides which arm answers."""

    def choose(self, call: Call) -> str:
        """Name of the arm; called once for each call, in the event loop, so it must not wait."""


class Watcher(Protocol):
    """Learns of calls; whatever it does must neither delay nor break them (the proxy logs its exceptions)."""

    def began(self, call: Call, arm: str) -> None:
        """The call goes to this arm now."""

    def ended(self, served: Served) -> None:
        """The client has its answer, or is gone."""


class Sign(Enum):
    """What a sentinel says of the text so far."""

    CLEAR = "clear"
    """All of it may be sent."""
    HOLD = "hold"
    """Suspicious: keep back what has not been sent until the next word."""
    TRIP = "trip"
    """Abnormal: nothing more of it may be sent."""


class Sentinel(Protocol):
    """Reads one answer as it is written."""

    reason: str
    """Name of the sign that tripped it, from a fixed set."""

    def read(self, text: str) -> Sign:
        """The next piece of the answer's text."""

    def clean(self) -> int:
        """Characters from the beginning that are good; a continuation starts there."""


class Guard(Protocol):
    """Watches the answers of arms that are not trusted yet."""

    def watch(self, call: Call, arm: str) -> Sentinel | None:
        """A sentinel for this call; None where the arm is trusted (the baseline)."""

    def refuge(self, call: Call, arm: str) -> str | None:
        """The arm that takes over a call that tripped on this one; None ends it."""


class Asker(Protocol):
    """The gateway's own questions to arms: never billed, never logged as traffic, never retried."""

    async def ask(
        self,
        arm: str,
        path: str,
        body: Mapping[str, Any],
        *,
        seconds: float,
        headers: Mapping[str, str] = ...,
    ) -> Mapping[str, Any]:
        """The JSON answer (streams are not asked for); `kvant.errors.EngineError` where none comes."""

    def load(self, arm: str) -> float:
        """How full the arm is, 0 to 1: whichever of its queue, its KV memory and its slots is fullest."""
