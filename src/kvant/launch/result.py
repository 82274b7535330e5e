"""What came of a step: a row for each thing looked at, and a verdict, of which `not run` is one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any

from kvant.quality.gate.verdict import ERROR


class Verdict(str, Enum):
    """As of the gate, and that nothing was measured."""

    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"
    NOT_RUN = "not run"


EXIT = {Verdict.PASS: 0, Verdict.FAIL: 1, Verdict.INCONCLUSIVE: 2, Verdict.NOT_RUN: 2}
"""The statuses of `kvant gate`."""
INTERRUPTED = 130
"""By Ctrl-C, as of a shell."""

__all__ = ["ERROR", "EXIT", "INTERRUPTED", "Item", "Step", "Verdict", "worst"]


@dataclass(frozen=True)
class Item:
    """One row: what was looked at, what was found, and the limit it was held against."""

    name: str
    verdict: Verdict
    found: str
    limit: str = ""


@dataclass(frozen=True)
class Step:
    """One step of the list. `facts` are its figures, for JSON."""

    name: str
    items: Sequence[Item]
    facts: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    earlier: str = ""
    """When an earlier run found it, where that was not this run."""

    @property
    def verdict(self) -> Verdict:
        return worst(item.verdict for item in self.items)

    def to_json(self) -> dict[str, Any]:
        return {"verdict": self.verdict.value} | asdict(self)

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Step:
        items = [Item(**{**item, "verdict": Verdict(item["verdict"])}) for item in found["items"]]
        earlier = found.get("earlier", "time not known")
        return cls(found["name"], items, found["facts"], found["seconds"], earlier)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Fail before inconclusive before not run before pass; nothing at all was not run."""
    found = set(verdicts) or {Verdict.NOT_RUN}
    order = (Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.NOT_RUN, Verdict.PASS)
    return next(one for one in order if one in found)


def verdict(passed: bool) -> Verdict:
    return Verdict.PASS if passed else Verdict.FAIL
