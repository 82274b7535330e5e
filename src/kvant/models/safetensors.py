"""Is this a whole safetensors file? Reads the header only; the weights are the checksum's business.

Layout: 8 bytes little-endian header length, a JSON header (tensor -> dtype, shape, data_offsets),
then the data without gaps (https://github.com/huggingface/safetensors#format).
"""

from __future__ import annotations

import json
from pathlib import Path

from kvant.errors import ModelError

MAX_HEADER = 100_000_000
"""The format's own limit; a larger length is garbage, not a header."""


def check(path: Path) -> None:
    """`ModelError` naming the file if its header and its size do not agree."""
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(8)
        length = int.from_bytes(head, "little")
        if len(head) < 8 or length > MAX_HEADER or 8 + length > size:
            raise _damaged(path, f"{size} bytes do not hold its header of {length} bytes")
        try:
            header = json.loads(file.read(length))
            spans = sorted(
                (int(entry["data_offsets"][0]), int(entry["data_offsets"][1]))
                for name, entry in header.items()
                if name != "__metadata__"
            )
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
            raise _damaged(path, "its header is not readable") from error
    end = 0
    for begin, stop in spans:
        if begin != end or stop < begin:
            raise _damaged(path, f"its tensors leave a gap or overlap at byte {begin}")
        end = stop
    if 8 + length + end != size:
        raise _damaged(path, f"its header promises {8 + length + end} bytes, the file has {size}")


def _damaged(path: Path, why: str) -> ModelError:
    return ModelError(f"{path} is truncated or damaged: {why}; fetch it again")
