"""Will it run out of memory while it ramps up? Blocks against what is admitted, and how full they are."""

from __future__ import annotations

import math
from collections.abc import Iterator

from kvant.doctor.finding import Finding, fail, ok, unknown, warn
from kvant.doctor.registry import service_check
from kvant.doctor.running.patient import Patient
from kvant.launch.service import Service
from kvant.telemetry.scrape import Scrape

WHAT = "memory while ramping"
WASTE = 0.5
PREEMPTED = 0.05
LEAST = 2.0
"""Requests of full length below which a service cannot ramp up at all."""
IDLE_USAGE = 0.001


@service_check
def blocks(patient: Patient) -> Iterator[Finding]:
    scrape = patient.scrape
    if scrape is None or not isinstance(patient.service, Service):
        yield unknown(WHAT, patient.lacks("/metrics"))
        return
    cache = scrape.labels("vllm:cache_config_info")
    try:
        number, size = int(cache["num_gpu_blocks"]), int(cache["block_size"])
    except (KeyError, ValueError):
        yield unknown(WHAT, "no vllm:cache_config_info on /metrics: the number of blocks is not known")
        return
    most = patient.settings.serving.max_batch if patient.settings else None
    peak = None if isinstance(patient.load, str) else patient.load.peaks.usage
    yield room(scrape, peak, number, size, patient.service.longest, most)
    yield filled(scrape, size)
    yield leaked(scrape)


def room(
    scrape: Scrape, peak: float | None, number: int, size: int, longest: int | None, most: int | None
) -> Finding:
    """A pool for fewer requests than are admitted preempts them: their work is done twice."""
    preempted = scrape.total("vllm:num_preemptions_total") or 0.0
    ended = scrape.total("vllm:request_success_total") or 0.0
    tokens = (number - 1) * size
    said = f"{number:,} blocks of {size}, {tokens:,} tokens"
    mend = (
        "raise kv_cache.memory_gib (or max_cache_blocks), take fewer bits, or lower serving.max_batch and "
        "max_context; `kvant plan MODEL --metrics URL/metrics` computes them from this traffic"
    )
    if longest:
        said += f": {tokens / longest:.1f} requests of the longest context, {longest:,}"
    said += f"; {preempted:.0f} preemptions in {ended:.0f} requests"
    if peak is not None:
        said += f", at most {peak:.0%} in use"
    if ended and preempted / ended > PREEMPTED:
        return fail(WHAT, f"{said}: the pool is too small for its traffic", mend)
    if longest and tokens / longest < LEAST:
        return warn(WHAT, f"{said}: two long requests do not fit together", mend)
    if longest and most and tokens / longest < most:
        return ok(
            WHAT, f"{said}; serving.max_batch is {most}: with requests all that long, {most} would not fit"
        )
    return ok(WHAT, said)


def filled(scrape: Scrape, size: int) -> Finding:
    """The last block of a request is half empty on average: short requests in large blocks are mostly air."""
    what = f"{WHAT} (fragmentation)"
    parts = [
        (scrape.total(f"vllm:request_{side}_tokens_sum"), scrape.total(f"vllm:request_{side}_tokens_count"))
        for side in ("prompt", "generation")
    ]
    if not all(count for _, count in parts):
        return unknown(what, "no request has ended yet: their lengths are not known")
    mean = sum((total or 0.0) / (count or 1.0) for total, count in parts)
    waste = 1 - mean / (math.ceil(mean / size) * size)
    said = f"requests have {mean:,.0f} tokens on average, blocks {size}"
    if mean < size and waste > WASTE:
        return warn(
            what,
            f"{said}: {waste:.0%} of their memory is empty",
            "a smaller kv_cache.block_size (default 64)",
        )
    return ok(what, f"{said}: at most {size / (mean + size):.0%} of their memory is empty")


def leaked(scrape: Scrape) -> Finding:
    what = f"{WHAT} (leaks)"
    running, waiting, usage = (
        scrape.total(f"vllm:{name}") for name in ("num_requests_running", "num_requests_waiting",
                                                  "kv_cache_usage_perc")
    )  # fmt: skip
    if running is None or waiting is None or usage is None:
        return unknown(what, "no vllm:kv_cache_usage_perc on /metrics")
    if running or waiting:
        busy = f"requests that run: {running:.0f}, that wait: {waiting:.0f}"
        return unknown(what, f"{busy}; try when it is idle")
    if usage > IDLE_USAGE:
        return fail(what, f"idle, and {usage:.1%} of the blocks are in use", "restart it; report the log")
    return ok(what, "idle, and no block is in use")
