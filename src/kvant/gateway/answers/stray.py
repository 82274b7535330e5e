"""A text that leaves the scripts of its prompt, unasked: for one other script, or for several at once.

Not judged: answers to prompts that speak of a language or of translating, and those that begin in another
script, as a poem or a name may.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from kvant.gateway.answers import signs
from kvant.gateway.roles import Sign
from kvant.quality.generation.detectors import script

OPENING = 32
"""Letters that show where an answer is at home."""
HELD, ENOUGH = 48, 256
"""Foreign letters, less four for each at home, at which text is held back; at which it has strayed."""
MIXED, SEVERAL = 4, 3
"""So many letters of so many foreign scripts at once are a mixture; one of each is forgotten every 16."""

ONE_HAND = {"HIRAGANA": "CJK", "KATAKANA": "CJK", "KATAKANA-HIRAGANA": "CJK", "IDEOGRAPHIC": "CJK"}
"""Scripts that one text mixes."""
NO_SCRIPT = frozenset(
    ["?", "MODIFIER", "MATHEMATICAL", "DOUBLE-STRUCK", "SCRIPT", "BLACK-LETTER", "MICRO", "FEMININE"]
    + ["MASCULINE", "FULLWIDTH", "HALFWIDTH", "ANGSTROM", "KELVIN", "OHM", "CIRCLED", "PLANCK", "EULER"]
    + ["ALEF", "BET", "GIMEL", "DALET"]
)
"""First words of the names of letters that belong to no script."""
SPOKEN_OF = re.compile(
    r"translat|languag|alphabet|polyglot|lingu|翻译|翻譯|语言|語|文字|перевед|перевод|язык|ترجم|لغة|번역|언어|"
    r"traduc|traduz|tradui|übersetz|sprache|idioma|langue|"
    r"chinese|mandarin|cantonese|japanese|korean|kanji|hangul|russian|ukrain|bulgarian|serbian|cyrillic|greek|arabic|persian|"
    r"farsi|urdu|hebrew|yiddish|hindi|sanskrit|devanagari|bengali|tamil|telugu|thai|armenian|georgian|amharic|"
    r"英|日文|韩文|俄|法文|德文|in english|английск|по-английски|영어|日本語|中文",
    re.IGNORECASE,
)


class Stray:
    name = signs.SCRIPT

    def __init__(self, prompt: Callable[[], str]) -> None:
        self._prompt = prompt
        self._home: frozenset[str] | None = None
        self._letters = self._native = self._away = 0
        self._mixed: dict[str, int] = {}
        self._spoken_of: bool | None = None

    def read(self, text: str) -> Sign:
        if self._home is None:
            self._home = scripts(self._prompt())
        if not self._home:
            return Sign.CLEAR
        if text.isascii() and "LATIN" in self._home:
            self._pass_home(sum(map(str.isalpha, text)))
            text = ""
        for character in text:
            if character.isalpha() and (name := _of(character)):
                self._count(name, name in self._home)
                strayed = self._away >= ENOUGH and self._at_home_first
                if (strayed or self._mixture) and not self._asked_for():
                    return Sign.TRIP
        held = self._away >= HELD and self._at_home_first
        return Sign.HOLD if held and not self._asked_for() else Sign.CLEAR

    @property
    def _at_home_first(self) -> bool:
        return self._native * 2 > OPENING

    @property
    def _mixture(self) -> bool:
        return len(self._mixed) >= SEVERAL and sum(n >= MIXED for n in self._mixed.values()) >= SEVERAL

    def _count(self, name: str, at_home: bool) -> None:
        if at_home:
            self._pass_home(1)
            return
        self._away += 1
        self._mixed[name] = min(4 * MIXED, self._mixed.get(name, 0) + 1)
        self._pass(1)

    def _pass_home(self, letters: int) -> None:
        self._native += max(0, min(letters, OPENING - self._letters))
        self._away = max(0, self._away - 4 * letters)
        self._pass(letters)

    def _pass(self, letters: int) -> None:
        before, self._letters = self._letters, self._letters + letters
        if (forgotten := self._letters // 16 - before // 16) and self._mixed:
            self._mixed = {one: n - forgotten for one, n in self._mixed.items() if n > forgotten}

    def _asked_for(self) -> bool:
        if self._spoken_of is None:
            self._spoken_of = SPOKEN_OF.search(self._prompt()) is not None
        return self._spoken_of


def scripts(text: str) -> frozenset[str]:
    """Scripts of which a text has any letter."""
    if text.isascii():
        return frozenset({"LATIN"}) if any(map(str.isalpha, text)) else frozenset()
    return frozenset(filter(None, (_of(one) for one in set(text) if one.isalpha())))


@lru_cache(maxsize=8192)
def _of(letter: str) -> str:
    name = script(letter)
    return "" if name in NO_SCRIPT else ONE_HAND.get(name, name)
