"""What a check says."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Level(str, Enum):
    """ok: as it should be. warn: it serves, with a loss. fail: it does not serve, or not what it should.
    unknown: could not be measured, and why."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Finding:
    """One line of the report: what was looked at, why the verdict, and how to mend it (empty if ok)."""

    level: Level
    what: str
    why: str
    mend: str = ""


def ok(what: str, why: str) -> Finding:
    return Finding(Level.OK, what, why)


def warn(what: str, why: str, mend: str) -> Finding:
    return Finding(Level.WARN, what, why, mend)


def fail(what: str, why: str, mend: str) -> Finding:
    return Finding(Level.FAIL, what, why, mend)


def unknown(what: str, why: str, mend: str = "") -> Finding:
    return Finding(Level.UNKNOWN, what, why, mend)
