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
        self._rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """The events that are complete now; joined with what is kept, they are what was fed."""
        data = self._rest + data if self._rest else data
        found, start = [], 0
        for end in _END.finditer(data):
            found.append(data[start : end.end()])
            start = end.end()
        self._rest = data[start:]
        if len(self._rest) > MAX_BYTES:
            raise Broken("an event without end")
        return found

    @property
    def whole(self) -> bool:
        """Whether nothing is kept."""
        return not self._rest


DONE = b"[DONE]"


def content(event: bytes) -> bytes | None:
    """What stands behind `data:`; None for a comment and whatever else is no data."""
    if not event.startswith(b"data:"):
        return None
    return event[5:].strip()


def parse(data: bytes) -> dict[str, Any]:
    """The JSON object of an event; `Broken` where it is none."""
    try:
        found = json.loads(data)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise Broken("an event that is no JSON object")
    return found


def made(value: Mapping[str, Any]) -> bytes:
    return b"data: " + json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"
