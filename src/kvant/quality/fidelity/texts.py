"""Texts to measure on: any file, or two that every Python installation carries (PSF licence)."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvant.errors import ConfigError

LONGEST_TOKEN = 32
"""Characters of a text looked at for each token wanted, at first: a book need not be tokenised whole."""


@dataclass(frozen=True)
class Text:
    """A name for the table, and what is read."""

    name: str
    content: str

    def ids(self, tokenizer: Any, tokens: int) -> list[int]:
        """The first `tokens` token ids; `ConfigError` says how many a too short text has."""
        found: list[int] = []
        for part in (self.content[: tokens * LONGEST_TOKEN], self.content):
            found = list(tokenizer(part, verbose=False).input_ids)
            if len(found) > tokens or len(part) == len(self.content):
                break
        if len(found) < tokens:
            raise ConfigError(
                f"text {self.name}: {len(found)} tokens of this model, but {tokens} are needed; "
                f"give a longer text, or --tokens {len(found)}"
            )
        return found[:tokens]


def english() -> Text:
    """The language reference as shipped for `help()`: long, plain English prose."""
    from pydoc_data.topics import topics

    names = sorted(topics, key=lambda name: -len(topics[name]))
    return Text("english", "\n\n".join(topics[name] for name in names))


def code() -> Text:
    """The source of argparse."""
    return Text("code", inspect.getsource(argparse))


def calibration() -> Text:
    """What a peer's parameters are fitted on: half prose, half code, and neither of the texts above."""
    import statistics

    return Text("calibration", inspect.getsource(statistics))


def load(files: Sequence[Path]) -> list[Text]:
    """The texts of these files, named after them; without any, the two default ones."""
    if not files:
        return [english(), code()]
    found = [Text(file.stem, _read(file)) for file in files]
    names = [text.name for text in found]
    if len(set(names)) != len(names):
        raise ConfigError(f"--text: two files are named {max(names, key=names.count)}; rename one")
    return found


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"--text {file}: is no UTF-8 text (byte {error.start})") from None
    except OSError as error:
        raise ConfigError(f"--text {file}: {error.strerror}") from None
