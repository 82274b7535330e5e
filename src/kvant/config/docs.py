"""Settings described by themselves: JSON schema, Markdown tables, and the example file."""

from __future__ import annotations

import io
import json
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from ruamel.yaml import YAML

from kvant.config import rules
from kvant.config.scalars import resolve
from kvant.config.settings import Settings

DIALECT = "https://json-schema.org/draft/2020-12/schema"
HEAD = """\
# Every field of Kvant's configuration, with its default. Keep what you change, delete the rest.
# Check a file with `kvant config check -c FILE`; a wrong or unknown field is refused with its line.
"""


def schema() -> dict[str, Any]:
    """The JSON schema of a configuration file, for editors and other validators."""
    return {"$schema": DIALECT} | Settings.model_json_schema() | {"title": "Kvant configuration"}


def sections() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(name, description, fields) of each section, from the schema; `engine` has no fields of its own."""
    yield from sections_of(schema())


def sections_of(root: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The same of the schema of any file."""
    for name, entry in root["properties"].items():
        section = root["$defs"].get(entry.get("$ref", "").rpartition("/")[2], entry)
        yield name, section["description"], section.get("properties", {})


def markdown() -> str:
    """The tables and rules of docs/configuration.md."""
    every = (*rules.UNQUANTISED, *rules.QUANTISED, *rules.ALWAYS)
    return tables_of(schema()) + "\n### Rules between fields\n\n" + "".join(f"- {r.__doc__}\n" for r in every)


def tables_of(root: dict[str, Any]) -> str:
    """A table for each section of a schema."""
    parts = []
    for section, description, fields in sections_of(root):
        part = f"### `{section}`\n\n{description}\n"
        if fields:
            part += "\n| field | default | allowed | meaning |\n|---|---|---|---|\n"
            part += "".join(
                f"| `{name}` | `{written(entry['default'])}` | {_allowed(entry)} | {entry['description']} |\n"
                for name, entry in fields.items()
            )
        parts.append(part)
    return "\n".join(parts)


def example() -> str:
    """kvant.example.yaml: every field with its default and what it is."""
    return example_of(schema(), HEAD)


def example_of(root: dict[str, Any], head: str, written_out: Mapping[str, str] | None = None) -> str:
    """The same of any file; sections whose fields have no defaults are written out by hand."""
    lines = [head]
    for name, description, fields in sections_of(root):
        if name in (written_out or {}):
            lines.append((written_out or {})[name])
            continue
        lines.append(f"# {description}")
        lines.append(f"{name}:" if fields else f"{name}: {{}}")
        for field, entry in fields.items():
            lines += textwrap.wrap(entry["description"], 100, initial_indent="  # ", subsequent_indent="  # ")
            lines += _field(field, entry["default"])
        lines.append("")
    return "\n".join(lines)


def _field(name: str, value: Any) -> Iterator[str]:
    nested = isinstance(value, dict) or (isinstance(value, list) and isinstance((value or [0])[0], dict))
    if not value or not nested:
        yield f"  {name}: {written(value)}"
        return
    yield f"  {name}:"
    yield textwrap.indent(dump(value), "    ").rstrip()


def dump(values: Any) -> str:
    """Values as a YAML file."""
    stream = io.StringIO()
    writer: Any = YAML(typ="safe", pure=True)
    writer.default_flow_style = False
    writer.sort_base_mapping_type_on_output = False
    writer.dump(values, stream)
    return stream.getvalue()


def written(value: Any) -> str:
    """A value on one line, as YAML."""
    if isinstance(value, str) and resolve(value) == value and value.replace("-", "").isalnum():
        return value
    return json.dumps(value)


def _allowed(entry: dict[str, Any]) -> str:
    options = entry.get("anyOf", [entry])
    return " or ".join(_kind(option) for option in options)


def _kind(option: dict[str, Any]) -> str:
    if "enum" in option:
        return ", ".join(f"`{written(choice)}`" for choice in option["enum"])
    if "$ref" in option:
        return "a mapping"
    if option["type"] == "array":
        return f"list of {_kind(option['items'])}"
    names = {
        "string": "text",
        "integer": "integer",
        "number": "number",
        "boolean": "`true`, `false`",
        "null": "`null`",
    }
    words = [names[option["type"]]]
    low, high = option.get("minimum"), option.get("maximum")
    above = option.get("exclusiveMinimum")
    if low is not None and high is not None:
        words.append(f"{_number(low)} to {_number(high)}")
    else:
        bounds = (("at least", low), ("above", above), ("at most", high))
        words += [f"{word} {_number(bound)}" for word, bound in bounds if bound is not None]
    if "multipleOf" in option:
        words.append(f"multiple of {option['multipleOf']}")
    return ", ".join(words)


def _number(value: float) -> str:
    return f"{value:g}" if value % 1 else f"{int(value):,}"
