"""Reads one answer as it is written and says whether what came may be sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol

from kvant.gateway.answers import asked
from kvant.gateway.answers.broken import Broken
from kvant.gateway.answers.loops import Loops
from kvant.gateway.answers.shape import Shape
from kvant.gateway.answers.stray import Stray
from kvant.gateway.roles import Sign


class Reader(Protocol):
    """Looks for one sign."""

    name: str

    def read(self, text: str) -> Sign: ...


def readers(body: Mapping[str, Any]) -> list[Reader]:
    """Those that suit a request; the prompt is looked at only when one of them needs it."""
    prompt = lru_cache(maxsize=1)(lambda: asked.text(body))
    found: list[Reader] = [Loops(prompt), Broken(prompt), Stray(prompt)]
    if asked.wants_json(body) and not body.get("tools"):
        found.append(Shape())
    return found


class Reading:
    """`kvant.gateway.roles.Sentinel`: the worst of what its readers say. A trip is for good.

    What was cleared may have been sent, so `clean` never falls behind it.
    """

    def __init__(self, watching: Sequence[Reader]) -> None:
        self._readers = watching
        self._read = self._clean = 0
        self.reason = ""

    def read(self, text: str) -> Sign:
        if self.reason:
            return Sign.TRIP
        self._read += len(text)
        held = False
        for reader in self._readers:
            said = reader.read(text)
            if said is Sign.TRIP:
                self.reason = reader.name
                return said
            held |= said is Sign.HOLD
        if held:
            return Sign.HOLD
        self._clean = self._read
        return Sign.CLEAR

    def clean(self) -> int:
        return self._clean
