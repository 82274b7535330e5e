"""An arm: replicas that answer alike, and which of them takes a request."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass

from kvant.gateway.arms.replica import Replica


@dataclass
class Arm:
    """The least loaded replica answers, or the one that knows the prompt's beginning if not much fuller."""

    name: str
    replicas: list[Replica]
    prefix_slack: float = 0.25

    def pick(
        self, now: float, *, prefix: str = "", long: bool = False, tried: Collection[Replica] = ()
    ) -> Replica | None:
        """The replica for a prompt that begins so; None where none is left. Long prompts have their own
        replicas, where there are any, and shorter ones keep out of them."""
        left = [one for one in self.replicas if not any(one is other for other in tried)]
        fitting = [one for one in left if one.long is long] or ([] if long and self._has_long else left)
        # One that was down may be up again by now: better asked than given up.
        open_ = [one for one in fitting if one.up(now)] or fitting
        if not open_:
            return None
        emptiest = min(open_, key=lambda one: one.fullness)
        if prefix:
            owner = max(open_, key=lambda one: _weight(prefix, one.url))
            if owner.free and owner.fullness <= emptiest.fullness + self.prefix_slack:
                return owner
        return emptiest

    def slots(self) -> int:
        """Requests that all its replicas together take at a time."""
        return sum(int(one.slots) for one in self.replicas)

    def load(self) -> float:
        """How full the arm is, 0 to 1: as its emptiest replica."""
        return min(1.0, min((one.fullness for one in self.replicas), default=1.0))

    def up(self, now: float) -> bool:
        return any(one.up(now) for one in self.replicas)

    @property
    def _has_long(self) -> bool:
        return any(one.long for one in self.replicas)


def _weight(prefix: str, url: str) -> bytes:
    # Rendezvous hashing: a replica that comes or goes moves only its own share of the prompts.
    return hashlib.blake2b(f"{url}\0{prefix}".encode(errors="replace"), digest_size=8).digest()
