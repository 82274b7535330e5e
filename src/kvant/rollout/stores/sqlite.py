"""One SQLite file, which the gateways of one machine may share."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kvant.errors import StoreError
from kvant.rollout.state import State
from kvant.rollout.tally import Sums, sum_of

SCHEMA = 1
WAIT = 2.0
"""Seconds that a write waits for another gateway's."""

TABLES = """
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS state (id INTEGER PRIMARY KEY CHECK (id = 1), version INTEGER, body TEXT);
CREATE TABLE IF NOT EXISTS evidence (generation INTEGER, stage INTEGER, name TEXT, value REAL,
    PRIMARY KEY (generation, stage, name)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS source (name TEXT PRIMARY KEY, serial INTEGER) WITHOUT ROWID;
COMMIT;
"""


class Sqlite:
    """Write-ahead log, synced at every commit: what was kept is there after kill -9 and after power loss."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._lock = threading.Lock()
        try:
            self._db = sqlite3.connect(file, timeout=WAIT, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            raise StoreError(f"{file}: cannot be opened: {error}; name a file that can be written") from error
        try:
            self._prepare()
        except BaseException:
            self._db.close()
            raise

    def _prepare(self) -> None:
        with self._errors():
            version = self._db.execute("PRAGMA user_version").fetchone()[0]
            if version not in (0, SCHEMA):
                raise StoreError(
                    f"{self.file}: is of schema {version}, this Kvant knows {SCHEMA}; "
                    "use the Kvant that wrote it"
                )
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            if version == 0:
                self._db.executescript(TABLES)
                self._db.execute(f"PRAGMA user_version = {SCHEMA}")

    def read(self) -> State | None:
        with self._errors():
            row = self._db.execute("SELECT body FROM state").fetchone()
            return State.of(json.loads(row[0])) if row else None

    def swap(self, seen: int, state: State) -> bool:
        with self._transaction():
            row = self._db.execute("SELECT version FROM state").fetchone()
            if (row[0] if row else 0) != seen:
                return False
            self._db.execute(
                "INSERT OR REPLACE INTO state VALUES (1, ?, ?)", (state.version, json.dumps(state.plain()))
            )
        return True

    def add(self, source: str, serial: int, generation: int, stage: int, sums: Sums) -> None:
        with self._transaction():
            row = self._db.execute("SELECT serial FROM source WHERE name = ?", (source,)).fetchone()
            if row and row[0] >= serial:
                return
            self._db.execute("INSERT OR REPLACE INTO source VALUES (?, ?)", (source, serial))
            self._db.executemany(
                "INSERT INTO evidence VALUES (?, ?, ?, ?) "
                "ON CONFLICT DO UPDATE SET value = value + excluded.value",
                [(generation, stage, name, value) for name, value in sums.items()],
            )

    def sums(self, generation: int, stages: int) -> list[Sums]:
        found: list[dict[str, float]] = [{} for _ in range(stages)]
        with self._errors():
            for stage, name, value in self._db.execute(
                "SELECT stage, name, value FROM evidence WHERE generation = ? AND stage < ?",
                (generation, stages),
            ):
                found[stage][name] = sum_of(value)
        return list(found)

    def close(self) -> None:
        with self._lock:
            self._db.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._errors():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            finally:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        with self._lock:
            try:
                yield
            except (sqlite3.Error, ValueError, KeyError, TypeError) as error:
                raise StoreError(f"{self.file}: the rollout's state: {error}") from error
