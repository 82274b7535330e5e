"""A chain of rows: each names the hash of the one before, so that none is changed or lost unseen.

What it cannot show is that the newest rows were cut off; who must prove that keeps the last hash elsewhere.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

START = "0" * 64


def sealed(row: Mapping[str, Any], number: int, before: str) -> tuple[bytes, str]:
    """A line of JSON with `number`, `before` and its own `hash`, and that hash. Pure ASCII, one line."""
    content = {"number": number, **row, "before": before}
    found = _hash(content)
    return _text({**content, "hash": found}) + b"\n", found


def opened(line: bytes) -> dict[str, Any] | None:
    """The row of a line; None where it is no row or not the one that was sealed."""
    try:
        row = json.loads(line)
        stated = row.pop("hash")
        return row if stated == _hash(row) and isinstance(row["number"], int) else None
    except (ValueError, KeyError, AttributeError, TypeError):
        return None


def hash_of(row: Mapping[str, Any]) -> str:
    """Of a row that was opened: what the next one calls `before`."""
    return _hash(row)


def _hash(row: Mapping[str, Any]) -> str:
    return hashlib.sha256(_text(row)).hexdigest()


def _text(row: Mapping[str, Any]) -> bytes:
    return json.dumps(row, ensure_ascii=True, separators=(",", ":")).encode()
