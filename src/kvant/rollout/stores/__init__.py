"""Where a rollout's state survives: one file, or a Redis that several gateways share."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from kvant.rollout.state import State
from kvant.rollout.tally import Sums


class Store(Protocol):
    """State by compare-and-swap, evidence by addition. Calls may wait for a disk or a network, so they belong
    in a thread; whatever fails is a `kvant.errors.StoreError`, and may be tried again."""

    def read(self) -> State | None:
        """What was kept last; None where nothing ever was."""

    def swap(self, seen: int, state: State) -> bool:
        """Keep `state` if the version there is `seen` (0: none there); whether it was. Durable on return."""

    def add(self, source: str, serial: int, generation: int, stage: int, sums: Sums) -> None:
        """Add to the evidence of a phase, once for each source and serial, which grows from call to call."""

    def sums(self, generation: int, stages: int) -> list[Sums]:
        """The evidence of the first `stages` phases of a rollout; empty where a phase has none."""

    def close(self) -> None: ...


def open_store(where: str) -> Store:
    """A store at `redis://`, `rediss://` or `unix://`, or in the file of that name."""
    if where.startswith(("redis://", "rediss://", "unix://")):
        from kvant.rollout.stores.redis import Redis

        return Redis(where)
    from kvant.rollout.stores.sqlite import Sqlite

    return Sqlite(Path(where))
