"""Reading the kernel's files: processors, memory, and the limits of control groups of both versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvant.doctor import Machine
from tests.doctor.machines import CPUINFO_ARM, describe, write

GIB = 1 << 30


def test_x86_and_arm_processors(tmp_path: Path) -> None:
    x86 = describe(tmp_path / "x86")
    assert x86.cpu_model == "Some Xeon"
    assert {"avx2", "avx512bw", "amx_tile"} < x86.cpu_flags
    arm = describe(tmp_path / "arm", cpuinfo=CPUINFO_ARM)
    assert arm.cpu_model
    assert arm.cpu_flags == {"fp", "asimd", "asimddp", "i8mm"}


def test_memory_without_control_groups(tmp_path: Path) -> None:
    machine = describe(tmp_path, memory_kib=16 << 20, available_kib=3 << 20)
    assert machine.memory == (16 * GIB, 3 * GIB)
    assert machine.memory_limit is None
    assert machine.cpu_quota is None


def test_the_tightest_limit_on_the_way_to_the_root_counts(tmp_path: Path) -> None:
    write(tmp_path / "proc/self/cgroup", "0::/pod/container\n")
    root = tmp_path / "sys/fs/cgroup"
    write(root / "pod/container/memory.max", "max\n")
    write(root / "pod/memory.max", f"{2 * GIB}\n")
    write(root / "pod/container/cpu.max", "150000 100000\n")
    write(root / "pod/cpu.max", "max 100000\n")
    machine = describe(tmp_path)
    assert machine.memory_limit == 2 * GIB
    assert machine.cpu_quota == 1.5


def test_control_groups_of_version_1(tmp_path: Path) -> None:
    write(tmp_path / "proc/self/cgroup", "4:memory:/job\n1:cpu,cpuacct:/\n0::/\n")
    root = tmp_path / "sys/fs/cgroup"
    write(root / "memory/job/memory.limit_in_bytes", f"{3 * GIB}\n")
    write(root / "memory/memory.limit_in_bytes", f"{2**63 - 4096}\n")
    write(root / "cpu/cpu.cfs_quota_us", "-1\n")
    write(root / "cpu/cpu.cfs_period_us", "100000\n")
    machine = describe(tmp_path)
    assert machine.memory_limit == 3 * GIB
    assert machine.cpu_quota is None
    write(root / "cpu/cpu.cfs_quota_us", "200000\n")
    assert describe(tmp_path).cpu_quota == 2.0


@pytest.mark.parametrize("text", ["0::/\n", "", "0::/../../elsewhere\n"])
def test_a_container_that_sees_only_its_own_group(tmp_path: Path, text: str) -> None:
    write(tmp_path / "proc/self/cgroup", text)
    write(tmp_path / "sys/fs/cgroup/memory.max", f"{GIB}\n")
    assert describe(tmp_path).memory_limit == (None if text == "" else GIB)


def test_this_machine_can_be_read() -> None:
    machine = Machine({}, (0,), {})
    total, available = machine.memory
    assert 0 < available <= total
    assert machine.cpu_flags
    assert machine.facts()["memory_bytes"] == total
