"""The file of keys: JSON, readable by its owner alone, whole at every moment, read again when it changes."""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from pydantic import ValidationError

from kvant import whole
from kvant.config.section import Section
from kvant.errors import ConfigError
from kvant.gateway.keys.key import Key
from kvant.gateway.keys.ring import Keyring

log = logging.getLogger("kvant.gateway")

MAX_BYTES = 16 << 20
LOOK_SECONDS = 0.5


class _File(Section):
    version: int = 1
    keys: tuple[Key, ...] = ()


def read(path: Path) -> Keyring:
    """The keys in a file; `ConfigError` names what is wrong, but no value of it."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: the keys cannot be read: {error.strerror}; `kvant keys create`") from None
    try:
        if len(raw) > MAX_BYTES:
            raise ValueError
        found = _File.model_validate_json(raw)
    except ValidationError as invalid:
        first = invalid.errors(include_input=False, include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ConfigError(f"{path}: {place}: {first['msg']}; `kvant keys` writes this file") from None
    except ValueError:
        raise ConfigError(f"{path}: over {MAX_BYTES} bytes; this is no file of keys") from None
    if found.version != 1:
        raise ConfigError(f"{path}: version {found.version} is not known here; upgrade Kvant")
    return Keyring(found.keys)


@contextlib.contextmanager
def changing(path: Path) -> Iterator[Callable[[Keyring], None]]:
    """Holds the file against other writers; what the block calls with a ring replaces the file."""
    try:
        descriptor = os.open(
            path.with_name(path.name + ".lock"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600
        )
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield lambda ring: _write(path, ring)
    finally:
        os.close(descriptor)


def _write(path: Path, ring: Keyring) -> None:
    content = _File(keys=tuple(ring.keys.values())).model_dump(mode="json")
    try:
        whole.write(path, (json.dumps(content, indent=1) + "\n").encode(), 0o600)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}") from None


class KeyFile:
    """The keys in effect: those of the last time that the file could be read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp = self._look()
        self._looked = time.monotonic()
        self._ring = read(path)
        self._told: tuple[int, int, int] | None = self._stamp
        """As the file was when it was last complained of."""

    def ring(self) -> Keyring:
        """Looks at the file twice a second at most; a damaged one is logged and changes nothing."""
        now = time.monotonic()
        if now - self._looked >= LOOK_SECONDS:
            self._looked = now
            stamp = self._look()
            if stamp != self._stamp:
                try:
                    self._ring = read(self._path)
                    self._stamp = stamp
                    log.info("%d keys read from %s", len(self._ring.keys), self._path)
                except ConfigError as error:
                    # Tried again, as what failed may be the reading (no file descriptor left), and what waits
                    # in the file the end of a key.
                    if stamp != self._told:
                        log.error("%s; the keys of before stay in effect", error)
                    self._told = stamp
        return self._ring

    def _look(self) -> tuple[int, int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino
