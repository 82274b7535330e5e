"""A suite under way: what it may ask, a batch a look, and what both arms have answered.

Looks are those of a group-sequential test: the error `alpha` is split evenly over all that may be needed, so
that it holds however many are (Bonferroni: whatever looks have to do with each other).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, islice
from typing import Any

from kvant.errors import ConfigError
from kvant.quality.gate.material import Ruler
from kvant.quality.gate.outcome import Result
from kvant.quality.gate.settings import Settings
from kvant.quality.gate.suites.base import Judgement, Pair, Suite
from kvant.quality.gate.verdict import Verdict


@dataclass
class Course:
    """`look` counts from 0; `before` are the baseline's answers to the batch of this look."""

    suite: Suite
    batches: Sequence[Sequence[Any]]
    alpha: float
    """Of one look."""
    look: int = 0
    before: Sequence[Any] = ()
    pairs: list[Pair] = field(default_factory=list)
    seconds: tuple[float, float] = (0.0, 0.0)
    result: Result | None = None

    @classmethod
    def of(cls, suite: Suite, settings: Settings, ruler: Ruler) -> Course:
        """`ConfigError` where a file has nothing to ask."""
        rng = random.Random(f"{suite.name} {settings.seed}")
        batches = [some for some in islice(suite.tasks(rng, ruler), settings.looks) if some]
        if not batches:
            raise ConfigError(f"{suite.name}: its file holds no task with an expected answer")
        return cls(suite, batches, settings.alpha / len(batches))

    @property
    def batch(self) -> Sequence[Any]:
        return self.batches[self.look]

    @property
    def planned(self) -> int:
        """Tasks up to and with this look."""
        return sum(map(len, self.batches[: self.look + 1]))

    @property
    def verdict(self) -> Verdict:
        return self.result.verdict if self.result else Verdict.INCONCLUSIVE

    def asks_on(self) -> bool:
        """Goes to the next look, if this one was inconclusive and there is one."""
        more = self.verdict is Verdict.INCONCLUSIVE and self.look + 1 < len(self.batches)
        self.look += more
        return more

    def judged(self, found: Judgement, verdict: Verdict, reason: str) -> None:
        if self.look and not reason:
            ends = accumulate(map(len, self.batches[: self.look]))
            reason = f"inconclusive after {', '.join(map(str, ends))} tasks, asked on"
        self.result = Result(
            self.suite.name, verdict, len(self.pairs), self.planned, self.seconds, found, reason
        )

    def failed(self, reason: str) -> None:
        """Without a judgement: the candidate does not answer."""
        self.judged(Judgement(()), Verdict.FAIL, reason)
