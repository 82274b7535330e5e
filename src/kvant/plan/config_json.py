"""A model's config.json, read strictly: every wrong or missing field is named with its line."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kvant.config.words import kind, near, show
from kvant.errors import ConfigError

MAX_BYTES = 4 * 1024 * 1024
LARGEST = 2**40
"""More than any field that a plan reads may be."""


class Fields:
    """The fields of one JSON object; `defaults` are what the model's family takes where none is written."""

    def __init__(self, data: dict[str, Any], file: str, text: str, defaults: dict[str, Any]) -> None:
        self._data, self._file, self._text, self._defaults = data, file, text, defaults

    def get(self, name: str, default: Any = None) -> Any:
        """As it is written; null counts as not written."""
        value = self._data.get(name)
        return self._defaults.get(name, default) if value is None else value

    def whole(self, name: str, default: int | None = None, least: int = 1, most: int = LARGEST) -> int:
        """A whole number from `least` to `most`; an error where it is missing and has no default."""
        value = self.get(name, default)
        if value is None:
            close = near(name, [one for one in self._data if one != name], 0.8)
            hint = f"; did you mean it by {close!r}?" if close else ""
            raise self.wrong(name, f"is missing{hint}")
        if type(value) is not int or not least <= value <= most:
            what = f"{show(value)} is {kind(value)}" if type(value) is not int else f"{value}"
            limit = "up" if most == LARGEST else f"to {most:,}"
            raise self.wrong(name, f"{what}; expected a whole number from {least} {limit}")
        return value

    def flag(self, name: str, default: bool) -> bool:
        value = self.get(name, default)
        if type(value) is not bool:
            raise self.wrong(name, f"{show(value)} is {kind(value)}; expected true or false")
        return value

    def names(self, name: str, length: int, allowed: Iterable[str]) -> list[str] | None:
        """A list of `length` of the allowed words; None where it is not written."""
        value = self.get(name)
        if value is None:
            return None
        if not isinstance(value, list) or len(value) != length:
            raise self.wrong(name, f"expected a list of {length}, one for each layer, got {show(value)}")
        for one in value:
            if one not in allowed:
                raise self.wrong(name, f"a plan does not know {show(one)}; known: {', '.join(allowed)}")
        return value

    def inner(self, name: str) -> Fields | None:
        """The object in a field, None where there is none."""
        value = self._data.get(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.wrong(name, f"{show(value)} is {kind(value)}; expected an object")
        start = max(self._text.find(f'"{name}"'), 0)
        # Lines before the object are kept, so that those inside it have their numbers.
        text = "\n" * self._text.count("\n", 0, start) + self._text[start:]
        return Fields(value, self._file, text, {})

    def with_defaults(self, defaults: dict[str, Any]) -> Fields:
        return Fields(self._data, self._file, self._text, defaults)

    def wrong(self, name: str, what: str) -> ConfigError:
        found = self._text.find(f'"{name}"')
        place = f"{self._file}:{self._text.count(chr(10), 0, found) + 1}" if found >= 0 else self._file
        return ConfigError(f"{place}: {name}: {what}")


def read(file: Path) -> Fields:
    """`ConfigError` with file and line for what is not a JSON object of a sane size."""
    try:
        with file.open("rb") as opened:
            raw = opened.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from None
    if len(raw) > MAX_BYTES:
        raise ConfigError(f"{file}: larger than {MAX_BYTES >> 20} MiB; this is no config.json")
    try:
        text = raw.decode("utf-8")
        data = json.loads(text, object_pairs_hook=_once)
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{file}:{line}: byte 0x{raw[error.start]:02x} is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise ConfigError(f"{file}:{error.lineno}: not valid JSON: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{file}: {error}") from None
    if not isinstance(data, dict):
        raise ConfigError(f"{file}:1: holds {kind(data)}; a model's config.json is an object")
    return Fields(data, str(file), text, {})


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name}: is given twice; keep one")
        found[name] = value
    return found
