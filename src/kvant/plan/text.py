"""Lines that fit a terminal."""

from __future__ import annotations

import textwrap

WIDTH = 80


def wrapped(text: str, first: str = "", later: str = "") -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=later, break_on_hyphens=False)
