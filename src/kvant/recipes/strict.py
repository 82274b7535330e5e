"""YAML file -> one strict record, or one `CalibrationError` with every problem and its line."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from kvant.config.explain import explain
from kvant.config.reader import MAX_BYTES, Node, read
from kvant.config.words import dotted, near, show
from kvant.errors import CalibrationError, ConfigError

Record = TypeVar("Record", bound=BaseModel)


def load(path: Path, record: type[Record]) -> tuple[Record, Node]:
    """The record in a file and the tree it was read from, which knows the lines."""
    try:
        with path.open("rb") as file:
            document = read(file.read(MAX_BYTES + 1), str(path))
    except OSError as error:
        raise CalibrationError(f"{path}: cannot be read: {error.strerror}") from None
    except ConfigError as error:
        raise CalibrationError(str(error)) from None
    problems = [(line, text) for line, text in document.problems]
    try:
        found = record.model_validate(document.root.plain())
    except ValidationError as invalid:
        problems += [
            (line_of(document.root, error["loc"]), _words(error, record))
            for error in invalid.errors(include_url=False)
        ]
    if problems:
        raise CalibrationError("\n".join(f"{path}:{line}: {text}" for line, text in sorted(problems)))
    return found, document.root


def settings(path: Path, record: type[Record]) -> Record:
    """The record in a file that a person wrote to steer a command: what is wrong is a `ConfigError`."""
    try:
        return load(path, record)[0]
    except CalibrationError as error:
        raise ConfigError(str(error)) from None


def line_of(node: Node, place: Iterable[str | int]) -> int:
    """The line of a field, or of the nearest collection around it."""
    line = node.line
    for part in place:
        inner: Any = node.value
        if isinstance(inner, dict) and part in inner:
            node = inner[str(part)]
        elif isinstance(inner, list) and isinstance(part, int) and part < len(inner):
            node = inner[part]
        else:
            return line
        line = node.line
    return line


def _words(error: ErrorDetails, record: type[BaseModel]) -> str:
    place = error["loc"]
    name = f"{dotted(place)}: " if place else ""
    if error["type"] == "missing":
        return f"{name}is missing"
    if error["type"] == "extra_forbidden":
        known = _fields(record, place[:-1])
        close = near(str(place[-1]), known)
        hint = f"did you mean {close}?" if close else f"known: {', '.join(known)}"
        return f"{name}unknown field; {hint}"
    if error["type"] == "literal_error":
        return f"{name}{show(error['input'])} is not {error['ctx']['expected']}"
    return name + explain(error)


def _fields(record: Any, place: Iterable[str | int]) -> list[str]:
    """Of the section at this place: a field's own, what may be null, or what a mapping holds."""
    for part in place:
        if isinstance(record, type) and issubclass(record, BaseModel):
            field = record.model_fields.get(str(part))
            record = field.annotation if field else None
        else:
            record = get_args(record)[-1] if get_args(record) else None
        if type(None) in get_args(record):
            record = next(one for one in get_args(record) if one is not type(None))
    known = isinstance(record, type) and issubclass(record, BaseModel)
    return list(record.model_fields) if known else []
