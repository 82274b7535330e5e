"""Settings described by themselves: JSON schema, Markdown tables, and the example file."""

from __future__ import annotations

import io
import json
import textwrap
from collections.abc import Iterator
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
    root = schema()
    for name, entry in root["properties"].items():
        section = root["$defs"].get(entry.get("$ref", "").rpartition("/")[2], entry)
        yield name, section["description"], section.get("properties", {})


def markdown() -> str:
    """The tables and rules of docs/configuration.md."""
    parts = []
    for section, description, fields in sections():
        part = f"### `{section}`\n\n{description}\n"
        if fields:
            part += "\n| field | default | allowed | meaning |\n|---|---|---|---|\n"
            part += "".join(
                f"| `{name}` | `{written(entry['default'])}` | {_allowed(entry)} | {entry['description']} |\n"
                for name, entry in fields.items()
            )
        parts.append(part)
    every = (*rules.UNQUANTISED, *rules.QUANTISED, *rules.ALWAYS)
    parts.append("### Rules between fields\n\n" + "".join(f"- {rule.__doc__}\n" for rule in every))
    return "\n".join(parts)


def example() -> str:
    """kvant.example.yaml: every field with its default and what it is."""
    lines = [HEAD]
    for name, description, fields in sections():
        lines.append(f"# {description}")
        lines.append(f"{name}:" if fields else f"{name}: {{}}")
        for field, entry in fields.items():
            lines += textwrap.wrap(entry["description"], 100, initial_indent="  # ", subsequent_indent="  # ")
            lines.append(f"  {field}: {written(entry['default'])}")
        lines.append("")
    return "\n".join(lines)


def dump(values: dict[str, Any]) -> str:
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
