"""A text that goes round: found while it is written, in constant time a character.

As LZ77 finds a match: where the last `GRAM` characters stood before, no more than `LONGEST` ago, the distance
is the period, and it is followed as long as each character is the one a period before.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from kvant.gateway.answers import signs
from kvant.gateway.roles import Sign
from kvant.quality.generation import detectors

LONGEST = 1024
"""Characters of the longest period."""
GRAM, EVERY = 16, 8
"""Characters that are looked for, and how far apart those lie that are remembered."""
HELD, HELD_AT_MOST = 48, 160
"""Characters that came again at which the text is held back: a period, within these bounds."""
ROUNDS = 4
"""Times that a period must come again."""
WORDS, MARKS, DATA = 320, 600, 3000
"""Characters that must come again: of words; of marks and blanks alone, which draw lines and tables; of
figures, constants or one letter, which fill arrays."""
ASKED = 16
"""Times as many where all words of the loop stand in the prompt: "write it a hundred times"."""
NEAR = 4096
"""Characters at the end of a prompt in which they are looked for."""

_CONSTANTS = re.compile(r"null|true|false|none|nan|\d", re.IGNORECASE)


class Loops:
    name = signs.REPETITION

    def __init__(self, prompt: Callable[[], str]) -> None:
        self._prompt = prompt
        self._tail = ""
        self._read = 0
        self._seen: dict[str, int] = {}
        self._period = self._again = self._enough = 0

    def read(self, text: str) -> Sign:
        known, start = self._tail + text, len(self._tail)
        for at in range(start, len(known)):
            self._follow(known, at)
            if self._again >= WORDS and self._again >= self._limit(known, at):
                return Sign.TRIP
        self._read += len(text)
        self._tail = known[-(LONGEST + GRAM) :]
        held = max(HELD, min(self._period, HELD_AT_MOST))
        return Sign.HOLD if self._period and self._again >= held else Sign.CLEAR

    def _follow(self, known: str, at: int) -> None:
        if self._period and known[at] == known[at - self._period]:
            self._again += 1
        else:
            self._period = self._again = self._enough = 0
        if at + 1 < GRAM:
            return
        gram, place = known[at + 1 - GRAM : at + 1], self._read - len(self._tail) + at
        if not self._period:
            distance = place - self._seen.get(gram, -LONGEST - 1)
            if distance <= LONGEST:
                self._period, self._again = distance, GRAM
        if place % EVERY == 0:
            self._seen[gram] = place
            if len(self._seen) > 2 * LONGEST // EVERY:
                self._seen = {one: last for one, last in self._seen.items() if place - last < LONGEST}

    def _limit(self, known: str, at: int) -> int:
        """Characters that must come again, of this loop; found once for each."""
        if not self._enough:
            body = known[at + 1 - self._period : at + 1]
            self._enough = max(ROUNDS * self._period, _kind(body)) * (ASKED if self._asked(body) else 1)
        return self._enough

    def _asked(self, body: str) -> bool:
        # Where the loop is cut, a word may be.
        words = {unit for unit in detectors.units(3 * body)[1:-1] if unit.isalnum()}
        return bool(words) and words <= set(detectors.units(self._prompt()[-NEAR:]))


def _kind(body: str) -> int:
    if any(map(str.isalpha, _CONSTANTS.sub("", body))) and len(set(body)) > 1:
        return WORDS
    return DATA if any(map(str.isalnum, body)) else MARKS
