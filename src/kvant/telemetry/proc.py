"""The processes of a service on this machine, as Linux shows them: memory, threads, processor time."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
TICK = os.sysconf("SC_CLK_TCK")
LISTENING = "0A"
BUSY = 0.2
"""Share of the busiest thread's time from which on a thread counts as working."""

Times = Mapping[tuple[int, int], float]
"""Processor seconds of each (process, thread)."""


@dataclass(frozen=True)
class Tree:
    """A process and all it has started."""

    root: int

    @classmethod
    def listening(cls, port: int) -> Tree | None:
        """Of the process that listens on this port; None where that cannot be told."""
        sockets = {f"socket:[{inode}]" for inode in _inodes(port)}
        owners = [pid for pid in _pids() if sockets & _open(pid)]
        return cls(min(owners)) if owners else None

    def pids(self) -> list[int]:
        parents = {pid: parent for pid in _pids() if (parent := _parent(pid)) is not None}
        found, new = [self.root], [self.root]
        while new:
            new = [pid for pid, parent in parents.items() if parent in new]
            found += new
        return found

    def resident(self) -> int:
        """Bytes of memory of their own, files and programs apart."""
        names = ("RssAnon:", "RssShmem:")
        lines = (line.split() for pid in self.pids() for line in _read(PROC / f"{pid}/status").splitlines())
        return sum(int(words[1]) << 10 for words in lines if words and words[0] in names)

    def times(self) -> Times:
        found = {}
        for pid in self.pids():
            for tid in _numbers(PROC / f"{pid}/task"):
                fields = _fields(PROC / f"{pid}/task/{tid}/stat")
                if fields:
                    found[pid, tid] = (int(fields[11]) + int(fields[12])) / TICK
        return found


def working(before: Times, after: Times) -> list[tuple[int, int]]:
    """The threads that worked, of the process that worked most."""
    spent = {key: seconds - before.get(key, 0.0) for key, seconds in after.items()}
    if not spent:
        return []
    by_process: dict[int, float] = {}
    for (pid, _), seconds in spent.items():
        by_process[pid] = by_process.get(pid, 0.0) + seconds
    busiest = max(by_process, key=lambda pid: by_process[pid])
    most = max(seconds for (pid, _), seconds in spent.items() if pid == busiest)
    return [key for key, seconds in spent.items() if key[0] == busiest and seconds >= BUSY * most > 0]


def allowed(pid: int, tid: int) -> frozenset[int]:
    """The cores that a thread may run on; empty where it is gone."""
    try:
        return frozenset(os.sched_getaffinity(tid))
    except OSError:
        return frozenset()


def machine_seconds() -> float:
    """Processor seconds that all processes of this machine have used."""
    words = _read(PROC / "stat").partition("\n")[0].split()[1:]
    user, nice, system = (int(words[n]) for n in range(3)) if len(words) > 2 else (0, 0, 0)
    return (user + nice + system) / TICK


def _inodes(port: int) -> list[str]:
    rows = (line.split() for name in ("tcp", "tcp6") for line in _read(PROC / "net" / name).splitlines()[1:])
    return [
        row[9] for row in rows if row[3] == LISTENING and int(row[1].rpartition(":")[2], 16) == port
    ]  # fmt: skip


def _open(pid: int) -> set[str]:
    """What its descriptors lead to; empty for another user's process."""
    try:
        files = list((PROC / f"{pid}/fd").iterdir())
    except OSError:
        return set()
    return {link for file in files if (link := _link(file))}


def _link(file: Path) -> str:
    try:
        return os.readlink(file)
    except OSError:  # closed meanwhile
        return ""


def _parent(pid: int) -> int | None:
    fields = _fields(PROC / f"{pid}/stat")
    return int(fields[1]) if fields else None


def _fields(stat: Path) -> list[str]:
    """Those after the name, which may hold anything."""
    return _read(stat).rpartition(")")[2].split()


def _pids() -> list[int]:
    return _numbers(PROC)


def _numbers(folder: Path) -> list[int]:
    try:
        return [int(file.name) for file in folder.iterdir() if file.name.isdigit()]
    except OSError:
        return []


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
