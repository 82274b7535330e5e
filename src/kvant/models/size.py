"""How many parameters a model folder holds, from the headers of its weights."""

from __future__ import annotations

import json
import math
from pathlib import Path

from kvant.models.manifest import WEIGHTS

HALF = 2
"""Bytes of a parameter in a file whose header is not read here."""


def parameters(folder: Path) -> int:
    """Elements of all tensors; files other than safetensors are taken to hold 16-bit numbers."""
    total = 0
    for file in folder.iterdir():
        if file.suffix == ".safetensors":
            with file.open("rb") as opened:
                header = json.loads(opened.read(int.from_bytes(opened.read(8), "little")))
            total += sum(math.prod(one["shape"]) for name, one in header.items() if name != "__metadata__")
        elif file.suffix in WEIGHTS:
            total += file.stat().st_size // HALF
    return total
