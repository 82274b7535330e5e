"""What came of a gate: a verdict for each suite and one for all, and what a reader needs to believe it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from kvant.bench.result import known
from kvant.quality.gate.suites.base import Judgement
from kvant.quality.gate.verdict import Verdict, worst


@dataclass(frozen=True)
class Result:
    """One suite. `reason` is why there is no judgement, or how it ended."""

    suite: str
    verdict: Verdict
    n: int
    planned: int
    seconds: tuple[float, float]
    """Of the baseline and of the candidate."""
    judgement: Judgement
    reason: str = ""


@dataclass(frozen=True)
class Outcome:
    """All suites, and what was compared on which machine."""

    baseline: str
    candidate: str
    model: str
    seed: int
    results: Sequence[Result]
    facts: Mapping[str, Any]

    @property
    def verdict(self) -> Verdict:
        """The worst of all suites."""
        return worst(result.verdict for result in self.results)

    def to_json(self) -> dict[str, Any]:
        """Plain values; numbers that are not finite become null."""
        found: dict[str, Any] = known({"verdict": self.verdict} | asdict(self))
        return found
