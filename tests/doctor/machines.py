"""Machines described by files: what a kernel would show under /proc and /sys."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from kvant.doctor import Machine
from kvant.doctor.probe import STEPS, Answer

CPUINFO_X86 = """processor\t: 0
model name\t: Some Xeon
flags\t\t: fpu sse2 avx2 avx512f avx512bw amx_tile
"""
CPUINFO_ARM = """processor\t: 0
BogoMIPS\t: 50.00
Features\t: fp asimd asimddp i8mm
"""

HEALTHY: dict[str, dict[str, Any]] = {
    "torch": {"threads": 2, "cuda": None, "gpus": []},
    "kernels": {
        "kernels": [
            {"name": "avx512", "available": False, "why_not": "no avx512vnni"},
            {"name": "avx2", "available": True, "why_not": ""},
        ],
        "chosen": "avx2",
    },
    "trap": {"broken": {}},
    "transformers": {},
    "vllm": {"device": "cpu"},
    "plugin": {"registered": ["kvant.engine.plugin:register"]},
    "loaded": {"openmp": ["/torch/lib/libgomp.so.1"], "libstdcxx": ["/lib/libstdc++.so.6.0.30"]},
}


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def describe(
    root: Path, *, memory_kib: int = 16 << 20, available_kib: int = 12 << 20, cpuinfo: str = CPUINFO_X86
) -> Machine:
    """A healthy machine of four cores without control groups; files under `root` can be added to it."""
    assert set(HEALTHY) == set(STEPS)
    write(root / "proc/cpuinfo", cpuinfo)
    write(root / "proc/meminfo", f"MemTotal: {memory_kib} kB\nMemAvailable: {available_kib} kB\n")
    write(root / "sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")
    return Machine(
        env={"PATH": "/usr/bin:/bin"},
        cores=(0, 1, 2, 3),
        probe={step: Answer(facts) for step, facts in HEALTHY.items()},
        proc=root / "proc",
        sys=root / "sys",
    )


def with_env(machine: Machine, **env: str) -> Machine:
    return dataclasses.replace(machine, env={**machine.env, **env})


def with_answer(machine: Machine, step: str, answer: Answer) -> Machine:
    return dataclasses.replace(machine, probe={**machine.probe, step: answer})
