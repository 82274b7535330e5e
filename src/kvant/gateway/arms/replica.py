"""One engine, and what is known of how full it is."""

from __future__ import annotations

from dataclasses import dataclass, field

DOWN_SECONDS = 2.0
"""How long a replica that could not be reached is left alone."""


@dataclass
class Replica:
    """`slots` is how many requests it is sent at a time; its queue and memory are as last polled."""

    url: str
    slots: int
    long: bool = False
    """Takes the prompts that are too long for others."""
    inflight: int = 0
    running: int = 0
    waiting: int = 0
    kv: float = 0.0
    """Share of KV memory in use, 0 to 1."""
    down_until: float = 0.0
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
        self.down_until = now + DOWN_SECONDS

    def answered(self) -> None:
        self.down_until = 0.0
