"""What a plan is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kvant.errors import ConfigError
from kvant.plan.assumptions import Range
from kvant.plan.contexts import Contexts
from kvant.plan.geometry import Model
from kvant.plan.precision import Precision
from kvant.plan.room import Room


@dataclass(frozen=True)
class Request:
    """What is asked. `concurrency` is what one instance must hold, `demand` what all of them together do."""

    model: Model
    precisions: Sequence[Precision]
    contexts: Contexts
    room: Room
    assumed: Mapping[str, Range]
    seqs: int | None = None
    concurrency: int = 1
    demand: float | None = None
    candidate: str | None = None

    def __post_init__(self) -> None:
        heads, ranks = self.model.heads, self.room.ranks
        if heads % ranks:
            near = [n for n in (*range(ranks, 0, -1), *range(ranks, heads + 1)) if heads % n == 0]
            raise ConfigError(
                f"--devices {ranks}: {heads} heads are not divided by {ranks} ranks; did you mean "
                f"{min(near, key=lambda n: abs(n - ranks))}?"
            )
        if self.seqs is not None and self.concurrency > self.seqs:
            raise ConfigError(
                f"--concurrency {self.concurrency}: is more than --max-num-seqs, {self.seqs}; raise that one"
            )
