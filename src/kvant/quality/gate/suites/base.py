"""What every suite is: tasks from a seed, one question to an arm, and a judgement of paired answers."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from kvant.quality.gate.client import Client
from kvant.quality.gate.material import Ruler
from kvant.quality.gate.verdict import Check


@dataclass(frozen=True)
class Pair:
    """One task and what both arms made of it."""

    task: Any
    baseline: Any
    candidate: Any


@dataclass(frozen=True)
class Example:
    """Where the arms part, in its context: `where`, the end of what both read, and how each went on."""

    where: str
    context: str
    baseline: str
    candidate: str
    expected: str = ""


@dataclass(frozen=True)
class Cell:
    """One square of a heatmap: share of right answers of both arms, of so many."""

    row: str
    column: str
    baseline: float
    candidate: float
    n: int


@dataclass(frozen=True)
class Judgement:
    """Checks against margins, both arms' scores, and what a reader should see."""

    checks: Sequence[Check]
    scores: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Name: (baseline, candidate)."""
    examples: Sequence[Example] = ()
    cells: Sequence[Cell] = ()
    notes: Sequence[str] = ()


class Suite(Protocol):
    """One file of this package each; `SUITES` in registry.py names them."""

    name: str
    fewest: int
    """Tasks between two looks, at least."""
    sizes: str
    """The settings that its requests are as long as."""

    def tasks(self, rng: random.Random, ruler: Ruler) -> Iterator[Sequence[Any]]:
        """As many as planned, then as many others, and so on; ends where there are no more.

        In an order in which any beginning is as good a sample as any other.
        """

    def ask(self, client: Client, task: Any) -> Any:
        """The answer of one arm; may be called from several threads."""

    def judge(self, pairs: Sequence[Pair], alpha: float) -> Judgement:
        """`alpha` is the one-sided error of each interval's end."""


SHOWN = 8
"""Examples of a suite in a report."""
