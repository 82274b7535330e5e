"""Text of any length from a seed, made of what every Python installation carries (PSF licence).

No model was calibrated on it: `kvant calibrate` leaves these modules out.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

from kvant.quality.fidelity.texts import english
from kvant.quality.gate.client import Refused

MODULES = ("argparse", "ast", "datetime", "difflib", "inspect", "logging", "subprocess", "tarfile", "typing")
SAMPLE = 6_000
"""Characters that tokens are counted in once, to know how many characters a token has."""
LEAST = 300
"""Characters of its smallest piece."""

SURELY = 0.75
"""Share of the tokens asked for that a text has at least, whatever paragraphs it is made of."""

Length = Callable[[str], int]


@dataclass(frozen=True)
class Ruler:
    """How many characters of prose and of code one token of the model has."""

    prose: float
    code: float

    @classmethod
    def of(cls, length: Length) -> Ruler:
        """From what a server counts."""
        return cls(*(_characters_a_token(text, length) for text in (" ".join(paragraphs()), source())))


def _characters_a_token(text: str, length: Length) -> float:
    """Of the text's start, in pieces that the server's context holds."""
    size = SAMPLE
    while True:
        pieces = [text[at : at + size] for at in range(0, SAMPLE, size)]
        try:
            return SAMPLE / max(1, sum(map(length, pieces)))
        except Refused:
            if size < 2 * LEAST:
                raise
            size //= 2


@cache
def paragraphs() -> tuple[str, ...]:
    """Prose of the language reference, a paragraph each, without tables and programs."""
    parts = (" ".join(part.split()) for part in english().content.split("\n\n"))
    return tuple(part for part in parts if 120 <= len(part) <= 900 and part[0].isalpha())


@cache
def source() -> str:
    """Source of the standard library."""
    files = (import_module(name).__file__ for name in MODULES)
    return "\n\n".join(Path(file).read_text(encoding="utf-8") for file in files if file)


def sentences(rng: random.Random) -> Iterator[str]:
    """Paragraphs without end, in an order of the seed, none twice before all were used."""
    while True:
        yield from rng.sample(paragraphs(), len(paragraphs()))


def prose(rng: random.Random, characters: float) -> list[str]:
    """Paragraphs of about so many characters."""
    found: list[str] = []
    for part in sentences(rng):
        found.append(part)
        characters -= len(part) + 2
        if characters <= 0:
            break
    return found


def passage(rng: random.Random, ruler: Ruler, tokens: int, room: int | None = None) -> str:
    """Prose of nearly so many tokens, or of as many as `room` holds for sure."""
    aim = 0.95 * tokens if room is None else min(0.95 * tokens, fits(room))
    size = int(aim * ruler.prose)
    return "\n\n".join(prose(rng, size))[:size]


def fits(room: int) -> int:
    """Tokens to aim at, by characters, where no more than `room` are taken.

    A text's tokens stray from the average by 1.2 to 1.6 roots of their number (standard deviation, the
    shipped prose, three models), sometimes by four times that.
    """
    return max(1, int(room - 8 * math.sqrt(max(0, room))))


def code(rng: random.Random, characters: float) -> str:
    """A stretch of source, from the start of a line."""
    text = source()
    while len(text) < 2 * characters:
        text += text
    start = text.index("\n", rng.randrange(int(len(text) - characters))) + 1
    return text[start : start + int(characters)]
