"""Files and folders that are there whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def write(path: Path, raw: bytes, mode: int = 0o644) -> None:
    """Replace a file, on disk before it has its name."""
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(mode)
        Path(temporary).replace(path)
    finally:
        Path(temporary).unlink(missing_ok=True)


@contextmanager
def folder(path: Path) -> Iterator[Path]:
    """A hidden folder beside `path`, which takes its place at the end; gone if anything fails."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for stale in path.parent.glob(f".{path.name}.*.part"):
        shutil.rmtree(stale, ignore_errors=True)
    work = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent))
    try:
        made = work / "made"
        made.mkdir()
        yield made
        if path.exists():
            path.rename(work / "replaced")
        made.rename(path)
    finally:
        shutil.rmtree(work, ignore_errors=True)
