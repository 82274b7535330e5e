"""Memory, what limits it, and the pages it comes in."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator

from kvant.doctor.finding import Finding, fail, ok, warn
from kvant.doctor.machine import Machine
from kvant.doctor.registry import check

GIB = 1 << 30
LEAST, COMFORT = 2 * GIB, 4 * GIB
"""torch and vLLM alone take above 1 GiB in two processes; the demo with its 1 GiB cache fits in 4."""

VLLM_WANTS = 0.92
"""Share of all memory that vLLM must find free, unless it is told the size of its cache."""

SHM = 256 << 20
"""vLLM's queues between its processes lie in shared memory; a container has 64 MiB by default."""


@check
def memory(machine: Machine) -> Iterator[Finding]:
    total, available = machine.memory
    limit = machine.memory_limit
    usable = min(available, limit or available)
    text = f"{available / GIB:.1f} of {total / GIB:.1f} GiB available"
    if limit is not None:
        text += f", this process may use {limit / GIB:.1f} GiB (control group)"
    mend = "free memory, raise the container's limit, or lower kv_cache.memory_gib"
    if usable < LEAST:
        yield fail("memory", f"{text}: too little to start", mend)
    elif usable < COMFORT:
        yield warn("memory", f"{text}: little room for a cache", mend)
    elif available < VLLM_WANTS * total:
        yield ok("memory", f"{text}; plain vLLM needs --kv-cache-memory-bytes 1G here")
    else:
        yield ok("memory", text)


@check
def huge_pages(machine: Machine) -> Iterator[Finding]:
    path = machine.sys / "kernel/mm/transparent_hugepage/enabled"
    chosen = re.search(r"\[(\w+)\]", machine.read(path))
    if chosen is None:
        yield ok("huge pages", "this kernel has none")
    elif chosen[1] == "never":
        yield warn(
            "huge pages",
            "transparent huge pages are off: a large cache costs more address look-ups",
            f"echo madvise > {path}, then THP_MEM_ALLOC_ENABLE=1 for the server",
        )
    elif chosen[1] == "madvise" and machine.env.get("THP_MEM_ALLOC_ENABLE") != "1":
        yield ok("huge pages", "on request (madvise); torch requests them with THP_MEM_ALLOC_ENABLE=1")
    else:
        yield ok("huge pages", f"transparent, {chosen[1]}")


@check
def shared_memory(machine: Machine) -> Iterator[Finding]:
    if not machine.shm.is_dir():
        yield fail("shared memory", f"{machine.shm} does not exist", "mount a tmpfs there")
        return
    free = shutil.disk_usage(machine.shm).free
    if free < SHM:
        yield warn(
            "shared memory",
            f"{free >> 20} MiB free in {machine.shm}, vLLM's processes talk through {SHM >> 20}",
            "give the container more: --shm-size=1g",
        )
    else:
        yield ok("shared memory", f"{free / GIB:.1f} GiB free")
