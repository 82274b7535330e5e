"""Text of any length from a seed, made of what every Python installation carries (PSF licence).

No model was calibrated on it: `kvant calibrate` leaves these modules out.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

from kvant.quality.fidelity.texts import english

MODULES = ("argparse", "ast", "datetime", "difflib", "inspect", "logging", "subprocess", "tarfile", "typing")
SAMPLE = 6_000
"""Characters that tokens are counted in once, to know how many characters a token has."""

Length = Callable[[str], int]


@dataclass(frozen=True)
class Ruler:
    """How many characters of prose and of code one token of the model has."""

    prose: float
    code: float

    @classmethod
    def of(cls, length: Length) -> Ruler:
        """From what a server counts."""
        samples = [" ".join(paragraphs())[:SAMPLE], source()[:SAMPLE]]
        return cls(*(len(text) / max(1, length(text)) for text in samples))


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


def code(rng: random.Random, characters: float) -> str:
    """A stretch of source, from the start of a line."""
    text = source()
    while len(text) < 2 * characters:
        text += text
    start = text.index("\n", rng.randrange(int(len(text) - characters))) + 1
    return text[start : start + int(characters)]
