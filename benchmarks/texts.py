"""Texts to measure on that every Python installation carries: English prose and code, PSF licence."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable


def english() -> str:
    """The language reference as shipped for `help()`: long, plain English prose."""
    from pydoc_data import topics

    return "\n\n".join(
        topics.topics[name] for name in sorted(topics.topics, key=lambda n: -len(topics.topics[n]))
    )


def code() -> str:
    """The source of argparse."""
    return inspect.getsource(argparse)


TEXTS: dict[str, Callable[[], str]] = {"english": english, "code": code}
