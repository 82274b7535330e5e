"""Where pulled models live, and how one is put there whole or not at all.

A model is assembled in a hidden folder beside its final place and renamed into it. One lock per
model keeps two pulls apart; it is inherited by the child processes, so that it outlives a parent
that was killed until the last process that could still write is gone too.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from kvant.errors import ModelError


def cache_root() -> Path:
    """$KVANT_HOME, or ~/.cache/kvant."""
    home = os.environ.get("KVANT_HOME")
    return Path(home).expanduser().absolute() if home else Path.home() / ".cache" / "kvant"


def folder_of(name: str) -> Path:
    """Where the packaged model of that name is, once it has been pulled."""
    return cache_root() / "models" / name


@contextmanager
def exclusive(name: str, waiting: Callable[[], None]) -> Iterator[int]:
    """Hold the lock of one model; yields its descriptor, for `pass_fds` of child processes."""
    with locked(folder_of(name).with_name(f".{name}.lock"), waiting) as descriptor:
        yield descriptor


@contextmanager
def locked(lock: Path, waiting: Callable[[], None]) -> Iterator[int]:
    """Hold a lock file of the cache; yields its descriptor."""
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise ModelError(
            f"cannot write in the cache folder {lock.parent}: {error.strerror}; "
            f"set KVANT_HOME to a folder that can be written"
        ) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def clear_stale(name: str) -> None:
    """Remove what killed pulls of this model left behind. Call it with the lock held."""
    for folder in folder_of(name).parent.glob(f".{name}.*.part"):
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def workspace(name: str, needed_bytes: int) -> Iterator[Path]:
    """A hidden folder beside the model's final place, gone afterwards whatever happens."""
    parent = folder_of(name).parent
    free = shutil.disk_usage(parent).free
    if free < needed_bytes:
        raise ModelError(
            f"{name} needs {needed_bytes / 2**30:.1f} GiB in {parent} while it is made, "
            f"{free / 2**30:.1f} GiB are free: free some, or set KVANT_HOME to a larger disk"
        )
    work = Path(tempfile.mkdtemp(prefix=f".{name}.", suffix=".part", dir=parent))
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def publish(made: Path, name: str) -> Path:
    """Move a finished folder to its final place, in one step; replaces an older one."""
    folder = folder_of(name)
    made.chmod(0o755)
    for path in made.iterdir():
        path.chmod(0o644)
    if folder.exists():
        discarded = made.with_name("replaced")
        folder.rename(discarded)
    made.rename(folder)
    return folder
