"""Some seconds of load, and what a service shows before, meanwhile and after.

A long prompt alone; a short one that is being answered while a long one comes; several at once. Texts are
never the same twice, so that no prefix is found in the cache.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx

from kvant.bench.serve import figures
from kvant.bench.serve.client import Broken, Stream, stream
from kvant.bench.serve.shares import LAG
from kvant.errors import EngineError
from kvant.launch.service import Service
from kvant.quality.gate.client import Client
from kvant.quality.gate.material import Ruler, passage
from kvant.telemetry import proc
from kvant.telemetry.scrape import Scrape

LONG, SHORT, TOGETHER = 1024, 64, 8
MORE = 4
"""Long prompts that are only written to the cache: what is kept of them a second time must be seen."""
ANSWER = 48
POLL = 0.2


@dataclass(frozen=True)
class Snapshot:
    """At one moment; what of it only this machine can tell is empty where the service runs elsewhere."""

    at: float
    scrape: Scrape
    resident: int | None
    times: proc.Times
    machine_seconds: float


@dataclass
class Peaks:
    """The most that was seen while the service was loaded."""

    running: float = 0.0
    waiting: float = 0.0
    usage: float = 0.0


@dataclass(frozen=True)
class Load:
    """Times in seconds. `resident` grows from `warm` on, when all buffers have been made."""

    before: Snapshot
    warm: Snapshot
    after: Snapshot
    prompt: int
    """Tokens of the long prompt, as the service counts them."""
    first_token: float
    """Of the long prompt, alone."""
    gap: float
    """Between two tokens of a stream, nothing else running; median."""
    stall: float
    """The longest gap of a stream into which a long prompt came."""
    alone: float
    """Tokens per second of one stream."""
    together: float
    """Tokens per second of `streams` at once."""
    streams: int
    peaks: Peaks = field(default_factory=Peaks)


def load(service: Service) -> Load:
    """`EngineError` where a request fails."""
    with service.client() as client:
        return _load(service, client)


def _load(service: Service, client: Client) -> Load:
    ruler, tree = Ruler.of(client.length), service.processes()
    rng = random.Random(time.time_ns())
    room = service.longest and service.longest - 2 * ANSWER

    def text(tokens: int) -> str:
        return passage(rng, ruler, tokens, room)

    def snapshot() -> Snapshot:
        time.sleep(LAG)  # counters of the model's seconds are brought up to date so often
        resident, times = (tree.resident(), tree.times()) if tree else (None, {})
        return Snapshot(time.monotonic(), service.scrape(), resident, times, proc.machine_seconds())

    before = snapshot()
    long = text(LONG)
    (one,) = service.stream([long], ANSWER)
    warm = snapshot()
    with _watching(service) as peaks:
        stall = _stall(service, text(SHORT), text(LONG))
        many = service.stream([text(SHORT) for _ in range(TOGETHER)], ANSWER)
        service.stream([text(LONG) for _ in range(MORE)], 1)
    after = snapshot()
    return Load(
        before,
        warm,
        after,
        client.length(long),
        one.arrivals[0][0] - one.sent,
        statistics.median(_gaps(one)),
        stall,
        (one.tokens - one.arrivals[0][1]) / sum(_gaps(one)),
        figures.of_turn(many)["throughput"] or 0.0,
        TOGETHER,
        peaks,
    )


def _gaps(one: Stream) -> list[float]:
    """`EngineError` where a stream came in one piece, which has none."""
    if len(one.arrivals) < 2:
        raise EngineError(
            f"{one.tokens} tokens of a stream came in one piece: does a proxy hold them back? Ask the service"
        )
    return [now - before for (before, _), (now, _) in zip(one.arrivals, one.arrivals[1:], strict=False)]


def _stall(service: Service, short: str, long: str) -> float:
    """The longest gap of an answer that was being written when a long prompt came."""

    async def both() -> Sequence[Stream]:
        timeout = httpx.Timeout(service.patience, connect=30)
        async with httpx.AsyncClient(
            base_url=service.url, timeout=timeout, trust_env=False, headers=service.headers
        ) as client:
            written = asyncio.ensure_future(stream(client, short, 2 * ANSWER, service.model))
            await asyncio.sleep(0.5)
            return await asyncio.gather(written, stream(client, long, 1, service.model))

    try:
        return max(_gaps(asyncio.run(both())[0]))
    except (Broken, httpx.HTTPError) as error:
        raise EngineError(f"{service.url}: {type(error).__name__} {error}") from error


@contextmanager
def _watching(service: Service) -> Iterator[Peaks]:
    peaks, over = Peaks(), threading.Event()

    def watch() -> None:
        while not over.wait(POLL):
            try:
                now = service.scrape()
            except EngineError:
                continue
            peaks.running = max(peaks.running, now.total("vllm:num_requests_running") or 0.0)
            peaks.waiting = max(peaks.waiting, now.total("vllm:num_requests_waiting") or 0.0)
            peaks.usage = max(peaks.usage, now.total("vllm:kv_cache_usage_perc") or 0.0)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield peaks
    finally:
        over.set()
        thread.join()
