"""How values and names appear in messages: short, escaped, with their kind, and a near match."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Any

LONGEST = 60
_SECRET = re.compile(r"(^|_)token$|secret|passw|credential|(api|private|access)_?key$", re.IGNORECASE)
HIDDEN = "***"


def show(value: Any) -> str:
    """A value as it would be written in YAML, shortened, control characters escaped."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return "[]" if not value else f"a list of {len(value)}"
    if isinstance(value, dict):
        return "{}" if not value else f"a mapping of {len(value)}"
    text = ascii(value) if isinstance(value, str) and not value.isprintable() else repr(value)
    if not isinstance(value, str | int | float):
        text = repr(str(value))
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


def kind(value: Any) -> str:
    """What a value is, in YAML's words."""
    names = {
        bool: "a boolean",
        int: "an integer",
        float: "a float",
        str: "text",
        list: "a list",
        dict: "a mapping",
    }
    return names.get(type(value), "nothing" if value is None else f"a {type(value).__name__}")


def near(name: str, names: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The most similar of `names`, ignoring case and the difference of - and _."""
    table = {candidate.lower(): candidate for candidate in names}
    close = difflib.get_close_matches(name.lower().replace("-", "_"), table, 1, cutoff)
    return table[close[0]] if close else None


def is_secret(name: str) -> bool:
    """True for names whose values are never shown."""
    return bool(_SECRET.search(name))


def dotted(path: Iterable[str | int]) -> str:
    """`kv_cache.skip_layers[1]` of ("kv_cache", "skip_layers", 1)."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            plain = part if re.fullmatch(r"[\w-]{1,60}", part, re.ASCII) else show(part)
            text += f".{plain}" if text else plain
    return text
