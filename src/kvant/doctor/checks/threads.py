"""Does the worker get the cores it could have, and do all libraries share one thread pool?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from kvant.doctor.finding import Finding, fail, ok, warn
from kvant.doctor.machine import Machine
from kvant.doctor.registry import check
from kvant.engine.threads import bind, siblings_from_sysfs

BIND = "VLLM_CPU_OMP_THREADS_BIND"


@check
def openmp(machine: Machine) -> Iterator[Finding]:
    """Two runtimes are two pools of threads on the same cores; two kinds of them may even hang."""
    paths = machine.probe["loaded"].facts.get("openmp", [])
    if machine.probe["torch"].error or not paths:
        return
    kinds = {re.match(r"lib(g|i)?omp", Path(path).name).group(0) for path in paths}  # type: ignore[union-attr]
    mend = "unset LD_PRELOAD; rebuild Kvant's kernels with gcc (make setup), which share torch's runtime"
    if len(kinds) > 1:
        yield fail("openmp", f"different runtimes in one process: {', '.join(paths)}", mend)
    elif len(paths) > 1:
        yield warn("openmp", f"{len(paths)} copies in one process: {', '.join(paths)}", mend)
    else:
        yield ok("openmp", f"one runtime, {paths[0]}")


@check
def binding(machine: Machine) -> Iterator[Finding]:
    """vLLM's automatic binding keeps a core for its scheduler: of two cores the worker gets one."""
    cores, value = machine.cores, machine.env.get(BIND)
    ours = bind(cores, 1, siblings_from_sysfs)
    if value is None:
        yield ok(
            "thread binding",
            f"`kvant serve` binds the worker to cores {ours}; a plain vLLM server leaves it "
            f"{_auto_threads(machine)} unless {BIND}={ours} is set",
        )
    elif value == "auto":
        yield warn(
            "thread binding", f"{BIND}=auto leaves the worker {_auto_threads(machine)}", f"unset {BIND}"
        )
    elif value == "nobind":
        threads = machine.env.get("OMP_NUM_THREADS")
        if threads and threads != str(len(cores)):
            yield warn(
                "thread binding",
                f"{BIND}=nobind, and OMP_NUM_THREADS={threads} on {len(cores)} cores",
                f"unset {BIND}, or OMP_NUM_THREADS",
            )
        else:
            yield ok("thread binding", f"{BIND}=nobind: {len(cores)} threads, not bound")
    else:
        yield _explicit(value, cores, ours)


@check
def quota(machine: Machine) -> Iterator[Finding]:
    if machine.cpu_quota is not None and machine.cpu_quota < len(machine.cores) - 0.01:
        yield warn(
            "cpu quota",
            f"{machine.cpu_quota:.1f} processors' worth of time on {len(machine.cores)} cores: "
            f"threads are stopped in the middle of a step",
            "raise the container's CPU limit, or pin it to that many cores (cpuset)",
        )
    else:
        yield ok("cores", f"{len(machine.cores)} usable")


def _auto_threads(machine: Machine) -> str:
    physical = {siblings_from_sysfs(core) for core in machine.cores}
    count = max(1, len(physical) - 1)
    return f"{count} thread{'s' if count > 1 else ''} of {len(machine.cores)}"


def _explicit(value: str, cores: tuple[int, ...], ours: str) -> Finding:
    try:
        chosen = {core for rank in value.split("|") for part in rank.split(",") for core in _span(part)}
    except ValueError:
        return fail(
            "thread binding", f"{BIND}={value!r} is not a list of cores", f"unset it, or {BIND}={ours}"
        )
    if outside := sorted(chosen - set(cores)):
        return fail(
            "thread binding",
            f"{BIND}={value} names cores {outside}, this process may use {list(cores)}",
            f"unset it, or {BIND}={ours}",
        )
    if len(chosen) == 1 and len(cores) > 1:
        return warn(
            "thread binding", f"{BIND}={value} leaves the worker one thread", f"unset it, or {BIND}={ours}"
        )
    return ok("thread binding", f"{BIND}={value}")


def _span(part: str) -> range:
    first, _, last = part.strip().partition("-")
    return range(int(first), int(last or first) + 1)
