"""Options of the command line that override fields of the configuration file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from kvant.errors import ConfigError

ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "-c", "--config", metavar="FILE", help="YAML file; without one, every field has its default."
    ),
]
Assignments = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="SECTION.FIELD=VALUE", help="Override any field; the value is YAML. Repeatable."
    ),
]


def collect(
    named: Mapping[str, tuple[str, Any]], assignments: Iterable[str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Overrides by dotted field, and the flag behind each.

    `named` maps a flag to its field and value, None where it was not given. `ConfigError` when two
    flags set one field.
    """
    given = [(flag, field, value) for flag, (field, value) in named.items() if value is not None]
    given += [("--set", *_assignment(text)) for text in assignments]
    overrides: dict[str, Any] = {}
    flags: dict[str, str] = {}
    for flag, field, value in given:
        if field in overrides:
            raise ConfigError(f"{flag}: {field} is set twice, first by {flags[field]}; keep one of the two")
        overrides[field], flags[field] = value, flag
    return overrides, flags


def _assignment(text: str) -> tuple[str, Any]:
    from kvant.config.reader import read
    from kvant.config.words import show

    field, equals, value = text.partition("=")
    field = field.strip()
    if not equals or "." not in field:
        raise ConfigError(f"--set {show(text)}: write section.field=value, such as kv_cache.key_bits=4")
    document = read(value.encode(errors="surrogateescape"), f"--set {show(text)}")
    for _, problem in document.problems:
        raise ConfigError(f"--set {show(text)}: {problem}")
    return field, document.root.plain()
