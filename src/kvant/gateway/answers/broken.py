"""Characters that no text has, in numbers: one may be meant, three close together are not."""

from __future__ import annotations

from collections.abc import Callable

from kvant.gateway.answers import signs
from kvant.gateway.roles import Sign
from kvant.quality.generation.detectors import wrong

FORGIVEN = 64
"""Good characters that make up for a broken one; until then the text is held back."""
TOO_MANY = 3


class Broken:
    name = signs.GIBBERISH

    def __init__(self, prompt: Callable[[], str]) -> None:
        self._prompt = prompt
        self._debt = 0
        self._quoted: bool | None = None

    def read(self, text: str) -> Sign:
        if text.isprintable() and "\ufffd" not in text:
            self._debt = max(0, self._debt - len(text))
            return Sign.HOLD if self._debt else Sign.CLEAR
        for character in text:
            if not wrong(character):
                self._debt = max(0, self._debt - 1)
            elif not self._prompt_has_some():
                self._debt += FORGIVEN
                if self._debt > (TOO_MANY - 1) * FORGIVEN:
                    return Sign.TRIP
        return Sign.HOLD if self._debt else Sign.CLEAR

    def _prompt_has_some(self) -> bool:
        """Who asks about such characters may be answered with them."""
        if self._quoted is None:
            self._quoted = any(map(wrong, set(self._prompt())))
        return self._quoted
