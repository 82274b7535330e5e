"""Calls on which the arms part, for the console: in memory only, a bounded number, deleted on demand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

SHOWN = 600
"""Characters kept of a prompt, its end, and of each answer."""


@dataclass(frozen=True)
class Example:
    """Where two answers to one call part. `shared` stands before that place in both."""

    id: str
    at: float
    prompt: str = field(repr=False)
    shared: str = field(repr=False)
    baseline: str = field(repr=False)
    candidate: str = field(repr=False)
    position: int
    """Tokens (words, where only answers were compared) of the answer before they part."""
    divergence: float | None


class Examples:
    """The newest `most`; none at all unless prompts may be logged."""

    def __init__(self, most: int, allowed: bool) -> None:
        self._most = most if allowed else 0
        self._kept: dict[str, Example] = {}

    @property
    def wanted(self) -> bool:
        return self._most > 0

    def add(self, example: Example) -> None:
        self._kept.pop(example.id, None)
        self._kept[example.id] = example
        while len(self._kept) > self._most:
            del self._kept[next(iter(self._kept))]

    def delete(self, id: str) -> bool:
        """Forgets what is kept of a request; whether there was anything."""
        return self._kept.pop(id, None) is not None

    def newest(self) -> Sequence[Example]:
        """Newest first."""
        return tuple(reversed(self._kept.values()))
