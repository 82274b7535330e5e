"""gateway.yaml described by itself: the example file and the tables of the documentation."""

from __future__ import annotations

from typing import Any

from kvant.config import docs
from kvant.gateway.settings.root import GatewaySettings

HEAD = """\
# Every field of gateway.yaml, with its default. Keep what you change, delete the rest.
# Check a file with `kvant gateway --check -c FILE`; a wrong or unknown field is refused with its line.
"""
ARMS = """\
# Who answers: the 16-bit baseline, and the candidate that is to take its place.
arms:
  # The arm that is trusted.
  baseline:
    urls: ["http://127.0.0.1:8001"]
  # The arm under test; null has none.
  candidate: null
"""


def schema() -> dict[str, Any]:
    """The JSON schema of the file."""
    return {"$schema": docs.DIALECT} | GatewaySettings.model_json_schema() | {"title": "Kvant gateway"}


def example() -> str:
    """A file with every field, its default and what it is."""
    return docs.example_of(schema(), HEAD, {"arms": ARMS})


def markdown() -> str:
    """The tables of docs/gateway.md; an arm's fields stand for both arms."""
    root = schema()
    root["properties"]["arms"] = {"$ref": "#/$defs/Arm"}
    return docs.tables_of(root)
