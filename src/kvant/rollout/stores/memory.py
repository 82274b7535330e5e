"""A store that forgets: for trials and simulations, where nothing has to survive."""

from __future__ import annotations

from kvant.rollout.state import State
from kvant.rollout.tally import Sums, plus


class Memory:
    def __init__(self) -> None:
        self._state: State | None = None
        self._sums: dict[tuple[int, int], Sums] = {}
        self._serials: dict[str, int] = {}

    def read(self) -> State | None:
        return self._state

    def swap(self, seen: int, state: State) -> bool:
        if seen != (self._state.version if self._state else 0):
            return False
        self._state = state
        return True

    def add(self, source: str, serial: int, generation: int, stage: int, sums: Sums) -> None:
        if serial > self._serials.get(source, 0):
            self._serials[source] = serial
            self._sums[generation, stage] = plus(self._sums.get((generation, stage), {}), sums)

    def sums(self, generation: int, stages: int) -> list[Sums]:
        return [self._sums.get((generation, stage), {}) for stage in range(stages)]

    def close(self) -> None:
        pass
