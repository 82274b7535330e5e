"""One engine, and what is known of how full it is."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

DOWN_SECONDS = 2.0
"""How long a replica that could not be reached is left alone."""


class Pace:
    """Seconds between tokens since the last question."""

    def __init__(self) -> None:
        self._seconds, self._count = 0.0, 0

    def add(self, seconds: float) -> None:
        self._seconds += seconds
        self._count += 1

    def mean(self) -> float | None:
        """Since the last call; None where no token came."""
        found = self._seconds / self._count if self._count else None
        self._seconds, self._count = 0.0, 0
        return found


@dataclass
class Replica:
    """`slots` is how many requests it is sent at a time; its queue and memory are as last polled."""

    url: str
    slots: float
    long: bool = False
    """Takes the prompts that are too long for others."""
    inflight: int = 0
    running: int = 0
    waiting: int = 0
    kv: float = 0.0
    """Share of KV memory in use, 0 to 1."""
    down_until: float = 0.0
    pace: Pace = field(default_factory=Pace)
    headers: dict[str, str] = field(default_factory=dict, repr=False)

    @property
    def fullness(self) -> float:
        """0 to 1: whichever of its slots and its KV memory is fuller; 1 and more where requests wait."""
        return max(self.inflight / self.slots, self.kv) + self.waiting / self.slots

    @property
    def free(self) -> bool:
        return self.inflight < self.slots

    def up(self, now: float) -> bool:
        return now >= self.down_until

    def failed(self, now: float) -> None:
        """It could not be reached."""
        self.down_until = max(self.down_until, now + DOWN_SECONDS)

    def absent(self) -> None:
        """A look found it gone, or loading: until one finds it ready."""
        self.down_until = math.inf

    def answered(self) -> None:
        self.down_until = 0.0
