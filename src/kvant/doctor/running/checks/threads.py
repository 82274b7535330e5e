"""Is the machine used? Threads that compute against the cores they may run on, and what else runs there."""

from __future__ import annotations

import os
from collections.abc import Iterator

from kvant.doctor.finding import Finding, ok, unknown, warn
from kvant.doctor.registry import service_check
from kvant.doctor.running.load import Load
from kvant.doctor.running.patient import Patient
from kvant.telemetry import proc

WHAT = "throughput"
OTHERS = 0.25
"""Of the cores' time, taken by processes that are not the service's."""
GAIN = 1.2
"""Eight streams at once must give at least so many times the tokens of one."""


@service_check
def throughput(patient: Patient) -> Iterator[Finding]:
    if isinstance(patient.load, str):
        yield unknown(WHAT, patient.lacks("the load"))
        return
    load = patient.load
    yield oversubscribed(load)
    gain = load.together / load.alone if load.alone else 0.0
    said = (
        f"{load.alone:.1f} tokens/s alone, {load.together:.1f} with {load.streams} streams; at most "
        f"{load.peaks.running:.0f} ran and {load.peaks.waiting:.0f} waited"
    )
    few = load.peaks.waiting > 0 and load.peaks.running < load.streams
    if few and short(load, patient.settings.serving.max_batch if patient.settings else None):
        yield warn(
            f"{WHAT} (batching)",
            f"{said}: requests wait for blocks, of which {load.peaks.usage:.0%} were in use",
            "raise kv_cache.memory_gib (or max_cache_blocks), or take fewer bits",
        )
    elif few:
        yield warn(
            f"{WHAT} (batching)",
            f"{said}: requests wait though more could be computed together",
            "raise serving.max_batch",
        )
    elif load.together and gain < GAIN:
        yield warn(f"{WHAT} (batching)", f"{said}: batches gain nothing", "look at threads and cores above")
    else:
        yield ok(f"{WHAT} (batching)", said)


def short(load: Load, most: int | None) -> bool:
    """Whether blocks, not serving.max_batch (`most`, where it is known), kept requests waiting."""
    if most is not None:
        return load.peaks.running < most
    cache = load.after.scrape.labels("vllm:cache_config_info")
    try:
        tokens = (int(cache["num_gpu_blocks"]) - 1) * int(cache["block_size"])
    except (KeyError, ValueError):
        return False
    return (1 - load.peaks.usage) * tokens < load.prompt  # the next long prompt found no room


def oversubscribed(load: Load) -> Finding:
    """By processor time of each thread, which no environment variable can belie."""
    what = f"{WHAT} (threads)"
    if not load.after.times:
        return unknown(what, "the threads of its processes are not visible here (another machine or user)")
    tasks = proc.working(load.before.times, load.after.times)
    if not tasks:
        return unknown(what, "no thread worked while it was loaded: are these its processes?")
    cores = frozenset().union(*(proc.allowed(*task) for task in tasks))
    machine = os.cpu_count() or 1  # others are counted on all of it, whatever this process may use
    threads = "1 thread computes" if len(tasks) == 1 else f"{len(tasks)} threads compute"
    said = f"{threads} on {len(cores)} {'core' if len(cores) == 1 else 'cores'}"
    if len(tasks) > len(cores) > 0:
        return warn(
            what,
            f"{said}: they take turns, and wait for each other",
            "unset OMP_NUM_THREADS and VLLM_CPU_OMP_THREADS_BIND: `kvant serve` binds a thread to each core",
        )
    others = _others(load)
    if others > OTHERS * machine:
        return warn(
            what,
            f"{said}, and other processes took {others:.1f} of the machine's {machine}",
            "give the service cores of its own (taskset, cpuset), or end what else runs",
        )
    if len(cores) < machine:
        return ok(what, f"{said}; the machine has {machine}")
    return ok(what, said)


def _others(load: Load) -> float:
    """Cores that others have used, on average."""
    before, after = load.before, load.after
    ours = sum(after.times.values()) - sum(before.times.get(key, 0.0) for key in after.times)
    return max(0.0, (after.machine_seconds - before.machine_seconds - ours) / (after.at - before.at))
