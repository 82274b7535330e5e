"""Which cores the workers' OpenMP threads run on.

vLLM's own choice reserves a core for its scheduler, which on two cores leaves the worker one thread,
and fails when there are more ranks than NUMA nodes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

FEW_CORES = 4
"""Up to so many cores, hyper-threads are used as well: they are better than an idle machine."""


def allowed_cores() -> list[int]:
    return sorted(os.sched_getaffinity(0))


def bind(cores: Sequence[int], ranks: int, siblings: Callable[[int], str]) -> str:
    """The value of VLLM_CPU_OMP_THREADS_BIND: one list of cores for each tensor-parallel rank.

    siblings(core) names the physical core; of each one only the first logical core is used when
    there are more than `FEW_CORES`. With fewer cores than ranks the threads are left unbound.
    """
    if len(cores) > FEW_CORES:
        first = {siblings(core): core for core in reversed(cores)}
        cores = sorted(first.values())
    if len(cores) < ranks:
        return "nobind"
    share = len(cores) // ranks
    return "|".join(",".join(map(str, cores[rank * share : (rank + 1) * share])) for rank in range(ranks))


def siblings_from_sysfs(core: int) -> str:
    path = Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list")
    try:
        return path.read_text().strip()
    except OSError:
        return str(core)
