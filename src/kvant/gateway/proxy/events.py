"""Server-sent events: bytes in pieces of any size -> whole events, each with its blank line."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from kvant.gateway.arms.upstream import Broken

MAX_BYTES = 8 << 20
"""Of one event; log-probabilities make large ones, but none that large."""
_END = re.compile(rb"\r?\n\r?\n")


class Events:
    """Keeps what has not come whole yet."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The events that are complete now; joined with what is kept, they are what was fed."""
        seen = max(0, len(self._rest) - 3)  # an end may be cut anywhere; before that there is none
        self._rest += data
        found, start = [], 0
        for end in _END.finditer(self._rest, seen):
            found.append(bytes(self._rest[start : end.end()]))
            start = end.end()
        del self._rest[:start]
        if len(self._rest) > MAX_BYTES:
            raise Broken("an event without end")
        return found

    @property
    def whole(self) -> bool:
        """Whether nothing is kept."""
        return not self._rest


DONE = b"[DONE]"


def content(event: bytes) -> bytes | None:
    """What stands behind `data:`, wherever in the event; None for a comment and whatever else is no data."""
    text = event.strip()
    if text.startswith(b"data:") and b"\n" not in text:
        return text[5:].strip()
    lines = [line[5:].strip() for line in text.splitlines() if line.startswith(b"data:")]
    return b"\n".join(lines) if lines else None


def parse(data: bytes) -> dict[str, Any]:
    """The JSON object of an event; `Broken` where it is none."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise Broken("an event that is no JSON object")
    return found


def made(value: Mapping[str, Any]) -> bytes:
    return b"data: " + json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"
