"""Where a result goes: a JSON file that is whole or not there."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kvant import whole
from kvant.errors import ConfigError

STDOUT = Path("-")


def write(file: Path, result: Mapping[str, Any]) -> None:
    """Write under a temporary name and rename; `-` is stdout. `ConfigError` names a file that cannot be."""
    text = json.dumps(known(result), indent=2, allow_nan=False) + "\n"
    if file == STDOUT:
        sys.stdout.write(text)
        return
    place(file, text, "--json")


def place(file: Path, text: str, flag: str) -> None:
    """Any report, whole or not there; half of a surrogate pair, which a model can write, becomes a mark."""
    try:
        whole.write(file, text.encode(errors="replace"))
    except OSError as error:
        raise ConfigError(f"cannot write {flag} {file}: {error.strerror}; name a file that can") from error


def known(value: Any) -> Any:
    """Plain values; JSON has no NaN, so a figure that is not known is null."""
    if isinstance(value, Mapping):
        return {name: known(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [known(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def check(file: Path | None, flag: str = "--json") -> None:
    """Before hours of measuring: can this file be written at all?"""
    if file is None or file == STDOUT:
        return
    if file.is_dir() or not file.parent.is_dir() or not os.access(file.parent, os.W_OK):
        raise ConfigError(f"cannot write {flag} {file}; name a file in a folder that can be written")
