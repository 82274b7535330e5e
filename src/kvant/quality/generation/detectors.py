"""Signs of degeneration in a text, each one number, from the string alone: no model, no tokenizer.

A *unit* is a word, a CJK character, or a run of one mark; spaces are none.
"""

from __future__ import annotations

import re
import unicodedata
import zlib
from collections import Counter
from dataclasses import dataclass

import numpy as np

_CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
_UNIT = re.compile(rf"[{_CJK}]|(?:(?![{_CJK}])\w)+|([^\w\s])\1*")

LONGEST_PERIOD = 128
"""Units: a paragraph that comes again and again is a loop too."""
ROUNDS, SHORTEST = 3, 12
"""A loop goes round at least three times, in at least so many units: "ha ha ha" is none."""


def units(text: str) -> list[str]:
    """Words, CJK characters and marks, in order."""
    return [found.group() for found in _UNIT.finditer(text)]


def repeated(text: str, n: int = 4) -> float:
    """Share of the n-grams of units that stood in the text before: 1 - distinct-n; 0 for none."""
    found = units(text)
    grams = list(zip(*(found[start:] for start in range(n)), strict=False))
    return 1 - len(set(grams)) / len(grams) if grams else 0.0


@dataclass(frozen=True)
class Loop:
    """A stretch of units in which each is what stood `period` before: first unit, length, period."""

    first: int
    length: int
    period: int


def loops(text: str) -> list[Loop]:
    """For each period that has any: its first and its longest stretch of `ROUNDS` periods at least."""
    names: dict[str, int] = {}
    codes = np.array([names.setdefault(unit, len(names)) for unit in units(text)], dtype=np.int64)
    found: list[Loop] = []
    for period in range(1, min(LONGEST_PERIOD, len(codes) // ROUNDS) + 1):
        same = np.concatenate([[0], codes[period:] == codes[:-period], [0]])
        edges = np.flatnonzero(np.diff(same))
        starts, lengths = edges[::2], edges[1::2] - edges[::2] + period
        long = np.flatnonzero(lengths >= max(ROUNDS * period, SHORTEST))
        if len(long):
            for n in {int(long[0]), int(long[lengths[long].argmax()])}:
                found.append(Loop(int(starts[n]), int(lengths[n]), period))
    return found


def looping(text: str) -> float:
    """Share of the text's units that its longest loop covers; 0 without one."""
    return max((loop.length for loop in loops(text)), default=0) / max(len(units(text)), 1)


def loop_start(text: str) -> float:
    """Where the earliest loop begins, as a share of the text's units; 1 without one."""
    return min((loop.first / len(units(text)) for loop in loops(text)), default=1.0)


def compression(text: str) -> float:
    """Bytes of the text (UTF-8) after zlib, level 9, to bytes before: small where it repeats; 1 if empty."""
    raw = text.encode()
    return len(zlib.compress(raw, 9)) / len(raw) if raw else 1.0


def wrong(c: str) -> bool:
    """Whether no text should have this character: U+FFFD, control, private and unassigned ones.

    Format characters are text: Persian, Hindi and the flags of Unicode need them.
    """
    return c == "\ufffd" or (unicodedata.category(c) in ("Cc", "Cn", "Co", "Cs") and c not in "\n\r\t")


def broken(text: str) -> float:
    """Share of characters that are `wrong`."""
    return sum(map(wrong, text)) / max(len(text), 1)


def script(letter: str) -> str:
    """The first word of its Unicode name: LATIN, CJK, ..."""
    return unicodedata.name(letter, "?").split()[0]


def scripts(text: str) -> dict[str, float]:
    """Share of each script among the letters."""
    found = Counter(script(c) for c in text if c.isalpha())
    return {name: count / found.total() for name, count in found.items()}


def strayed(text: str, reference: str) -> float:
    """Distance of its scripts from those of `reference`: total variation, 0 to 1; 0 if one has no letter."""
    here, there = scripts(text), scripts(reference)
    if not here or not there:
        return 0.0
    return sum(abs(here.get(name, 0) - there.get(name, 0)) for name in here.keys() | there.keys()) / 2
