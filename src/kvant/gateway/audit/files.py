"""The files of an audit log: the newest under its own name, full ones beside it with their last number."""

from __future__ import annotations

import os
from pathlib import Path

from kvant.gateway.audit import chain

TAIL = 1 << 20
"""Bytes from the end in which the last row is looked for; no row is longer."""


def full(path: Path) -> list[Path]:
    """The full files, oldest first."""
    pattern = f"{path.stem}-" + "[0-9]" * 12 + path.suffix
    return sorted(path.parent.glob(pattern))


def retire(path: Path, number: int, keep: int) -> None:
    """The newest file is full with this row; all but `keep` full ones are deleted."""
    path.rename(path.with_name(f"{path.stem}-{number:012d}{path.suffix}"))
    for old in full(path)[:-keep]:
        old.unlink()


def resume(path: Path) -> tuple[int, str]:
    """Number and hash of the last row, of which the next one goes on.

    A line that was cut off while it was written (kill -9, disk full) is removed.
    """
    if not path.exists():
        older = full(path)
        return _last(older[-1]) if older else (0, chain.START)
    with path.open("rb+") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - TAIL))
        start, tail = file.tell(), file.read()
        whole = tail.rfind(b"\n") + 1
        if start + whole < size:
            file.truncate(start + whole)
    if start + whole == 0:
        path.unlink()
        return resume(path)
    return _last(path)


def _last(path: Path) -> tuple[int, str]:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - TAIL))
        line = file.read().rstrip(b"\n").rpartition(b"\n")[2]
    row = chain.opened(line)
    # A damaged row stays where it is for `kvant gateway audit` to find; the chain begins anew after it.
    return (0, chain.START) if row is None else (row["number"], chain.hash_of(row))
