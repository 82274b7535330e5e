"""Can what was written so far still become JSON (RFC 8259)? Constant time a character."""

from __future__ import annotations

import json
import re

from kvant.gateway.answers import signs
from kvant.gateway.roles import Sign

DEEPEST = 256
"""Levels of nesting beyond which nothing is judged."""
LONGEST = 64
"""Characters of a number or constant; a longer one is not judged."""

_BEGUN = re.compile(r"-?(0|[1-9]\d*)?(?<=\d)(\.\d*)?([eE][+-]?\d*)?|-?")
_BLANK, _HEX = " \t\n\r", "0123456789abcdefABCDEF"


class Shape:
    name = signs.JSON

    def __init__(self) -> None:
        self._open: list[str] = []
        self._next = "value"
        """What may come: value, first (a value or ]), key, field (a key or }), colon, more (a comma or the
        end of the collection), end."""
        self._string = False
        self._escape = 0
        """0: none; -1: after a backslash; else hexadecimal digits to come."""
        self._bare = ""
        self._judged = True

    @property
    def complete(self) -> bool:
        """Whether the text so far is JSON; a text that is not judged counts as such."""
        if not self._judged:
            return True
        return not self._open and (self._next == "end" or (bool(self._bare) and _is_value(self._bare)))

    def read(self, text: str) -> Sign:
        good = all(not self._judged or self._takes(one) for one in text)
        return Sign.CLEAR if good else Sign.TRIP

    def _takes(self, c: str) -> bool:
        if self._string:
            return self._inside(c)
        if self._bare:
            if c not in _BLANK + ",]}:":
                return self._longer(c)
            if not _is_value(self._bare):
                return False
            self._bare = ""
            self._ended()
        if c in _BLANK:
            return True
        return self._opens(c) or self._closes(c) or self._between(c)

    def _inside(self, c: str) -> bool:
        if self._escape > 0:
            self._escape -= 1
            return c in _HEX
        if self._escape:
            self._escape = 4 if c == "u" else 0
            return c in '"\\/bfnrtu'
        if c == "\\":
            self._escape = -1
        elif c == '"':
            self._string = False
            if self._next in ("key", "field"):
                self._next = "colon"
            else:
                self._ended()
        return c >= " "

    def _longer(self, c: str) -> bool:
        self._bare += c
        self._judged = len(self._bare) <= LONGEST
        return _may_become(self._bare)

    def _opens(self, c: str) -> bool:
        value = self._next in ("value", "first")
        if c == '"' and (value or self._next in ("key", "field")):
            self._string = True
        elif c in "{[" and value:
            self._open.append(c)
            self._next = "field" if c == "{" else "first"
            self._judged = len(self._open) <= DEEPEST
        elif value and _may_become(c):
            self._bare = c
        else:
            return False
        return True

    def _closes(self, c: str) -> bool:
        if not self._open or (self._open[-1], c) not in (("{", "}"), ("[", "]")):
            return False
        if self._next not in ("more", "field" if c == "}" else "first"):
            return False
        self._open.pop()
        self._ended()
        return True

    def _between(self, c: str) -> bool:
        if c == ":" and self._next == "colon":
            self._next = "value"
        elif c == "," and self._next == "more":
            self._next = "key" if self._open[-1] == "{" else "value"
        else:
            return False
        return True

    def _ended(self) -> None:
        self._next = "more" if self._open else "end"


def _may_become(bare: str) -> bool:
    return any(one.startswith(bare) for one in ("true", "false", "null")) or bool(_BEGUN.fullmatch(bare))


def _is_value(bare: str) -> bool:
    try:
        json.loads(bare, parse_constant=lambda _: 1 / 0)
    except (ValueError, ZeroDivisionError):
        return False
    return True
