"""What clients say of a request, as it may be repeated."""

from __future__ import annotations

import re

_ID = re.compile(r"[\w.:-]{1,128}", re.ASCII)
_CONTROL = dict.fromkeys(range(32), "?")


def sound_id(given: str | None) -> str | None:
    """The client's own request id, where it is one that logs and headers can hold."""
    return given if given and _ID.fullmatch(given) else None


def plain(path: str) -> str:
    """A path for the log: one line of ASCII, without its query."""
    return path[:200].encode("ascii", "backslashreplace").decode().translate(_CONTROL)
