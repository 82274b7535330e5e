"""What a model reads while it is calibrated: shipped texts, code, conversations, or the user's own files.

English, Chinese and the conversations were written for Kvant (corpus/LICENSE); code is the running
interpreter's standard library and Kvant's own. `argparse` and `pydoc_data` are left out: fidelity is
measured on them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from kvant.errors import CalibrationError

FOLDER = Path(__file__).with_name("corpus")
STDLIB = ("json.decoder", "textwrap", "csv", "heapq", "fractions")
OWN = ("kvant.transforms.hadamard", "kvant.formats.codebook", "kvant.config.reader")
LONGEST_MODULE = 3_000
"""Characters taken of one module."""


@dataclass(frozen=True)
class Text:
    """One text and what it is called in the recipe."""

    name: str
    text: str


def shipped(tokenizer: Any) -> Iterator[Text]:
    """The texts that come with Kvant; conversations only where the tokenizer knows how to write them."""
    yield Text("english", (FOLDER / "english.txt").read_text(encoding="utf-8"))
    if getattr(tokenizer, "chat_template", None):
        yield Text("chat", "".join(_conversations(tokenizer)))
    yield Text("code", "\n\n".join(_source(name) for name in (*STDLIB, *OWN)))
    yield Text("chinese", (FOLDER / "chinese.txt").read_text(encoding="utf-8"))


def own(files: Sequence[Path]) -> Iterator[Text]:
    """The user's files, UTF-8."""
    for file in files:
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise CalibrationError(f"--data {file}: cannot be read as UTF-8 text: {reason}") from None
        if not text.strip():
            raise CalibrationError(f"--data {file}: is empty")
        yield Text(file.name, text)


def _source(name: str) -> str:
    file = import_module(name).__file__
    assert file is not None
    return Path(file).read_text(encoding="utf-8")[:LONGEST_MODULE]


def _conversations(tokenizer: Any) -> Iterator[str]:
    for turns in json.loads((FOLDER / "chat.json").read_text(encoding="utf-8")):
        roles = ("user", "assistant")
        messages = [{"role": roles[n % 2], "content": turn} for n, turn in enumerate(turns)]
        yield tokenizer.apply_chat_template(messages, tokenize=False)
