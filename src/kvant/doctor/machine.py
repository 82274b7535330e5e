"""What the checks look at. Where its files are is a parameter, so that tests can describe any machine."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from kvant.doctor.probe import Answer, ask


@dataclass(frozen=True)
class Machine:
    """Environment, allowed cores, the roots of /proc and /sys, and what `probe` answered."""

    env: Mapping[str, str]
    cores: tuple[int, ...]
    probe: Mapping[str, Answer]
    proc: Path = Path("/proc")
    sys: Path = Path("/sys")
    shm: Path = Path("/dev/shm")

    @classmethod
    def here(cls) -> Machine:
        """This machine; runs the probe, which takes some seconds."""
        return cls(dict(os.environ), tuple(sorted(os.sched_getaffinity(0))), ask())

    @cached_property
    def cpu_model(self) -> str:
        return self._cpuinfo("model name") or platform.machine()

    @cached_property
    def cpu_flags(self) -> frozenset[str]:
        """As the kernel writes them: `flags` on x86, `Features` on ARM."""
        return frozenset((self._cpuinfo("flags") or self._cpuinfo("Features")).split())

    @cached_property
    def memory(self) -> tuple[int, int]:
        """Bytes in all and available, of the machine."""
        rows = dict(
            line.split(":", 1) for line in self.read(self.proc / "meminfo").splitlines() if ":" in line
        )
        total, available = (int(rows.get(k, "0 kB").split()[0]) << 10 for k in ("MemTotal", "MemAvailable"))
        return total, available

    @cached_property
    def memory_limit(self) -> int | None:
        """Bytes that the control groups of this process allow; None: no limit below the machine's memory."""
        limits = [
            int(text)
            for folder, name in self._groups("memory", ("memory.max", "memory.limit_in_bytes"))
            if (text := self.read(folder / name).strip()).isdigit()
        ]
        return min((limit for limit in limits if limit < self.memory[0]), default=None)

    @cached_property
    def cpu_quota(self) -> float | None:
        """Processors' worth of time that the control groups allow; None: no limit."""
        quotas = []
        for folder, name in self._groups("cpu", ("cpu.max", "cpu.cfs_quota_us")):
            quota, _, period = self.read(folder / name).strip().partition(" ")
            period = period or self.read(folder / "cpu.cfs_period_us").strip()
            if quota.isdigit() and period.isdigit() and int(period):
                quotas.append(int(quota) / int(period))
        return min(quotas, default=None)

    def facts(self) -> dict[str, Any]:
        """The device, for reports that carry their run."""
        return {
            "cpu": self.cpu_model,
            "cores": list(self.cores),
            "cpu_quota": self.cpu_quota,
            "memory_bytes": self.memory[0],
            "memory_limit_bytes": self.memory_limit,
            "kernel": platform.release(),
            "python": platform.python_version(),
        }

    @staticmethod
    def read(path: Path) -> str:
        """The text of a file of the kernel; empty if there is none."""
        try:
            return path.read_text()
        except OSError:
            return ""

    def _cpuinfo(self, key: str) -> str:
        for line in self.read(self.proc / "cpuinfo").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == key:
                return value.strip()
        return ""

    def _groups(self, controller: str, names: tuple[str, str]) -> list[tuple[Path, str]]:
        """Every folder from this process's control group up to the root, for version 2 and version 1."""
        unified, legacy = names
        found = []
        for line in self.read(self.proc / "self" / "cgroup").splitlines():
            _, controllers, group = line.split(":", 2)
            if controllers == "":
                root, name = self.sys / "fs/cgroup", unified
            elif controller in controllers.split(","):
                root, name = self.sys / "fs/cgroup" / controller, legacy
            else:
                continue
            folder = root / group.lstrip("/")
            found += [(place, name) for place in (folder, *folder.parents) if place.is_relative_to(root)]
        return found
