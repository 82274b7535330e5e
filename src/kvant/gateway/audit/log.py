"""The audit log: a row for every request, written by a thread of its own so that no disk delays a token."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import queue
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from kvant.errors import ConfigError
from kvant.gateway.audit import chain, files
from kvant.gateway.settings import Audit

log = logging.getLogger("kvant.gateway")

MAX_WAITING = 100_000
"""Rows that wait for the disk; beyond them rows are lost, and the next row says how many."""
CLOSE_SECONDS = 5.0


class AuditLog:
    """Rows in the order they are given. A disk that fails loses rows, never requests."""

    def __init__(self, settings: Audit) -> None:
        assert settings.file is not None
        self._path, self._settings = Path(settings.file), settings
        try:
            self._lock = _locked(self._path)
            self._number, self._before = files.resume(self._path)
            self._file: IO[bytes] | None = self._opened()
        except BlockingIOError:
            raise ConfigError(
                f"audit.file: {self._path} is written by another gateway; give each its own, or rows would "
                "break each other's chain"
            ) from None
        except OSError as error:
            raise ConfigError(f"audit.file: {self._path} cannot be written: {error.strerror}") from None
        self.lost = 0
        """Rows that could not be written, since the start."""
        self._unsaid = 0
        self._rows: queue.Queue[Mapping[str, Any] | None] = queue.Queue(MAX_WAITING)
        self._thread = threading.Thread(target=self._work, name="kvant-audit", daemon=True)
        self._thread.start()

    def write(self, row: Mapping[str, Any]) -> None:
        """Returns at once."""
        try:
            self._rows.put_nowait(row)
        except queue.Full:
            self.lost += 1
            self._unsaid += 1

    def close(self) -> None:
        """Writes what waits, as far as the disk takes it in time."""
        with contextlib.suppress(queue.Full):
            self._rows.put(None, timeout=CLOSE_SECONDS)
            self._thread.join(CLOSE_SECONDS)
        self._lock.close()

    def _work(self) -> None:
        while (row := self._rows.get()) is not None:
            try:
                self._append(row)
                self._unsaid = 0
            except OSError as error:
                if not self._unsaid:
                    log.error("audit.file: rows are lost: %s", error.strerror)
                self.lost += 1
                self._unsaid += 1
                self._reopen()
        if self._file is not None:
            self._file.close()

    def _append(self, row: Mapping[str, Any]) -> None:
        if self._file is None:
            self._file = self._opened()
        if self._file.tell() >= self._settings.max_bytes:
            self._file.close()
            self._file = None
            files.retire(self._path, self._number, self._settings.keep)
            self._file = self._opened()
        said = {**row, "lost": self._unsaid} if self._unsaid else row
        line, found = chain.sealed(said, self._number + 1, self._before)
        if self._file.write(line) < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # a disk that is full takes a part first
        self._number, self._before = self._number + 1, found

    def _opened(self) -> IO[bytes]:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        file = self._path.open("ab", buffering=0)
        self._path.chmod(0o600)
        return file

    def _reopen(self) -> None:
        """After an error: without the part of a line that may have been written."""
        try:
            if self._file is not None:
                self._file.close()
            self._file = None
            self._number, self._before = files.resume(self._path)
        except OSError:
            self._file = None


def _locked(path: Path) -> IO[bytes]:
    """Held as long as it is open, by one process; `BlockingIOError` where another holds it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.with_name(path.name + ".lock").open("wb")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        file.close()
        raise
    return file
