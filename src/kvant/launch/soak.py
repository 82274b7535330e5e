"""Step 5: mixed load for a chosen time. Memory flat, no block lost, no latency creep, nothing failed."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvant.errors import EngineError
from kvant.launch import speed, traffic
from kvant.launch.result import Item, Step, Verdict, verdict
from kvant.launch.service import Service
from kvant.launch.settings import Soak
from kvant.quality.gate import stats
from kvant.quality.gate.verdict import at_most
from kvant.telemetry.scrape import Scrape

NAME = "soak"
SAMPLES = 240
FEWEST = 8
"""Samples of a quarter, below which no verdict is given."""
SETTLE = 30.0
SETTLING = 0.7
"""Of the growth from the second quarter to the third, that from the third to the last."""
RESAMPLES = 4_000
DIRTY = re.compile(r"\b(ERROR|CRITICAL)\b|^Traceback \(most recent call last\)")
FAILURES = {
    "kvant_requests_rejected_total": ("timeout", "internal", "engine"),
    "vllm:request_success_total": ("error",),
}
"""Series, and those of their labels, that count what must not happen."""

Say = Callable[[str], None]


def run(service: Service, limits: Soak, log: Path | None, say: Say) -> Step:
    """`log` is that of a server which was started here."""
    try:
        before = service.scrape()
        tree = service.processes()
        prompts = speed.texts(service, limits.prompt, limits.answer)
        resident: list[tuple[float, int]] = []
        with traffic.running(service, limits, prompts) as seen:
            began = time.monotonic()
            while (spent := time.monotonic() - began) < limits.seconds:
                time.sleep(min(max(1.0, limits.seconds / SAMPLES), limits.seconds - spent))
                if tree:
                    resident.append((time.monotonic() - began, tree.resident()))
                say(
                    f"{spent:.0f} of {limits.seconds:.0f} s, {seen.asked} requests, {len(seen.failed)} failed"
                )
        idle = _idle(service)
    except EngineError as error:
        return Step(NAME, [Item("requests", Verdict.FAIL, str(error))])
    items = [
        _requests(seen),
        _memory(resident, limits),
        _blocks(idle),
        _latency(seen.probes, limits),
        _log(log) if log else _counted(before, idle),
    ]
    return Step(NAME, items, _facts(seen, resident))


def _requests(seen: traffic.Seen) -> Item:
    kinds = ", ".join(sorted(set(seen.failed)))
    found = f"{seen.asked + len(seen.probes)} asked, {len(seen.failed)} failed" + (
        f": {kinds}" if kinds else ""
    )
    if not seen.asked:
        return Item("requests", Verdict.INCONCLUSIVE, found, "none fails")
    return Item("requests", verdict(not seen.failed), found, "none fails")


def _memory(resident: Sequence[tuple[float, int]], limits: Soak) -> Item:
    """Growth from the second quarter to the last; in the first, buffers and caches are made."""
    name, limit = "memory flat", f"≤ {limits.memory:.0%}"
    if not resident:
        return Item(name, Verdict.INCONCLUSIVE, "the memory of its processes is not visible here", limit)
    _, early, middle, late = quarters(resident)
    if len(early) < FEWEST:
        return Item(name, Verdict.INCONCLUSIVE, f"{len(resident)} samples are too few: soak longer", limit)
    grown = growth(early, late, limits.alpha)
    check = at_most(name, grown, limits.memory, "")
    times, sizes = np.array(resident[len(resident) // 4 :], float).T
    slope = float(np.polyfit(times, sizes, 1)[0]) * 3600
    found = (
        f"{float(np.median(late)) / 2**20:,.0f} MiB, {grown.value:+.2%} [{grown.low:+.2%}, {grown.high:+.2%}]"
        f", {slope / 2**20:+,.1f} MiB an hour"
    )
    judged = Verdict(check.verdict.value)
    if judged is Verdict.FAIL and settles(early, middle, late):
        return Item(name, Verdict.INCONCLUSIVE, f"{found}, ever slower: soak longer", limit)
    return Item(name, judged, found, limit)


def settles(early: NDArray[np.float64], middle: NDArray[np.float64], late: NDArray[np.float64]) -> bool:
    """Allocators fill up (vLLM's own on a CPU takes tens of minutes to); a leak goes on as it began."""
    first, second, third = (float(np.median(one)) for one in (early, middle, late))
    return third - second < SETTLING * (second - first)


def _latency(probes: Sequence[tuple[float, float]], limits: Soak) -> Item:
    """The same request asked all the time: median of the last quarter against the first."""
    name, limit = "latency", f"≤ {limits.latency:+.0%}"
    first, _, _, last = quarters(probes)
    if len(first) < FEWEST:
        return Item(name, Verdict.INCONCLUSIVE, f"{len(probes)} probes are too few: soak longer", limit)
    grown = growth(first, last, limits.alpha)
    check = at_most(name, grown, limits.latency, "")
    found = (
        f"{np.median(first):.2f} → {np.median(last):.2f} s, {grown.value:+.1%} "
        f"[{grown.low:+.1%}, {grown.high:+.1%}] (bootstrap)"
    )
    return Item(name, Verdict(check.verdict.value), found, limit)


def quarters(samples: Sequence[tuple[float, float]]) -> list[NDArray[np.float64]]:
    """Values by quarter of the time."""
    found = np.array(samples, float).reshape(-1, 2)
    if not len(found):
        return [np.array([])] * 4
    which = np.minimum(3, (4 * found[:, 0] / max(found[:, 0].max(), 1e-9)).astype(int))
    return [found[which == n, 1] for n in range(4)]


def growth(first: NDArray[np.float64], last: NDArray[np.float64], alpha: float) -> stats.Interval:
    """Percentile bootstrap of how much the median has grown, as a share; the quarters are independent."""
    rng = np.random.default_rng(0)
    medians = [np.median(x[rng.integers(0, len(x), (RESAMPLES, len(x)))], axis=1) for x in (first, last)]
    low, high = np.quantile(medians[1] / medians[0] - 1, [alpha, 1 - alpha])
    return stats.Interval(float(np.median(last) / np.median(first) - 1), float(low), float(high))


def _idle(service: Service) -> Scrape:
    """The metrics, once nothing runs; those of `SETTLE` seconds later if something still does."""
    deadline = time.monotonic() + SETTLE
    while True:
        now = service.scrape()
        if time.monotonic() > deadline or not any(_left(now)):
            return now
        time.sleep(0.5)


def _left(scrape: Scrape) -> list[float]:
    names = ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc")
    return [found for name in names if (found := scrape.total(name)) is not None]


def _blocks(idle: Scrape) -> Item:
    left = _left(idle)
    if len(left) < 3:
        return Item("blocks given back", Verdict.INCONCLUSIVE, "/metrics does not tell", "all")
    running, waiting, usage = left
    found = f"idle: {running:.0f} run, {waiting:.0f} wait, {usage:.2%} of the blocks in use"
    return Item("blocks given back", verdict(not any(left)), found, "all")


def _log(log: Path) -> Item:
    """Only of a server that was started here: another's log is not ours to find."""
    lines = log.read_text(errors="replace").splitlines()
    dirty = [line for line in lines if DIRTY.search(line)]
    found = f"{len(lines)} lines, {len(dirty)} errors" + (f": {dirty[0][:200]}" if dirty else "")
    return Item("log clean", verdict(not dirty), found, "no ERROR, no traceback")


def _counted(before: Scrape, after: Scrape) -> Item:
    name, limit = "failures counted", "none"
    labels = {"kvant_requests_rejected_total": "reason", "vllm:request_success_total": "finished_reason"}
    if after.total("vllm:request_success_total") is None:
        return Item(name, Verdict.INCONCLUSIVE, "/metrics does not tell, and its log is not here", limit)
    counted = {
        reason: after.since(before, series, **{labels[series]: reason}) or 0.0
        for series, reasons in FAILURES.items()
        for reason in reasons
    }
    found = ", ".join(f"{reason} {count:.0f}" for reason, count in counted.items())
    return Item(name, verdict(not any(counted.values())), found, limit)


def _facts(seen: traffic.Seen, resident: Sequence[tuple[float, int]]) -> dict[str, Any]:
    return {
        "asked": seen.asked,
        "failed": seen.failed[:100],
        "probes": list(_thinned(seen.probes)),
        "resident": list(_thinned(resident)),
    }


def _thinned(samples: Sequence[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    yield from samples[:: max(1, len(samples) // SAMPLES)]
