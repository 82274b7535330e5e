"""Evidence that the store has not confirmed yet: sent until it has, and counted once."""

from __future__ import annotations

import secrets
from typing import NamedTuple

from kvant.rollout.stores import Store
from kvant.rollout.tally import Sums, plus


class Phase(NamedTuple):
    """Whose evidence it is."""

    generation: int
    stage: int


class Outbox:
    """Of one gateway. Grows with phases, not with time, however long the store is lost."""

    def __init__(self) -> None:
        self._source = secrets.token_hex(8)
        self._serial = 0
        self._waiting: dict[Phase, Sums] = {}
        self._sending: tuple[Phase, Sums] | None = None

    def put(self, phase: Phase, sums: Sums) -> None:
        if sums:
            self._waiting[phase] = plus(self._waiting.get(phase, {}), sums)

    def send(self, store: Store) -> None:
        """All of it. What was on its way when the store failed goes again under its old serial, unchanged."""
        while self._sending or self._waiting:
            if self._sending is None:
                phase = next(iter(self._waiting))
                self._sending = (phase, self._waiting.pop(phase))
                self._serial += 1
            phase, sums = self._sending
            store.add(self._source, self._serial, *phase, sums)
            self._sending = None

    def of(self, phase: Phase) -> Sums:
        """What the store lacks of a phase."""
        on_its_way = self._sending[1] if self._sending and self._sending[0] == phase else {}
        return plus(self._waiting.get(phase, {}), on_its_way)
