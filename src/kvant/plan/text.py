"""Lines that fit a terminal."""

from __future__ import annotations

import textwrap

WIDTH = 80


def wrapped(text: str, first: str = "", later: str = "") -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=later, break_on_hyphens=False)


def counted(requests: float) -> str:
    return f"{requests:,.0f} request{'s' * (round(requests) != 1)}"
