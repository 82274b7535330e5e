"""Looks at the arms' own /metrics: who is up, how long their queues are, how full their KV memory."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping

from kvant.gateway.admission import elastic
from kvant.gateway.admission.elastic import Measured
from kvant.gateway.arms.arm import Arm
from kvant.gateway.arms.replica import Replica
from kvant.gateway.arms.upstream import Broken, Unreachable, Upstream
from kvant.gateway.settings import Scheduling

log = logging.getLogger("kvant.gateway")

MAX_BYTES = 4 << 20
LOOK_SECONDS = 5.0
"""Longest look at one replica, where looks are not further apart."""
_GAUGE = re.compile(
    rb"^vllm:(num_requests_running|num_requests_waiting|kv_cache_usage_perc)(?:\{[^}]*\})? (\S+)", re.M
)


async def keep_looking(
    arms: Iterable[Arm], upstream: Upstream, scheduling: Scheduling, looked: Callable[[], object]
) -> None:
    """Every `poll_seconds`, all replicas at once; `looked` is called after each round."""
    replicas = {one.url: (arm.name, one) for arm in arms for one in arm.replicas}
    were_up: dict[str, bool] = {}
    while True:
        await asyncio.gather(*(look(one, upstream, scheduling) for _, one in replicas.values()))
        for url, (name, one) in replicas.items():
            if (up := one.up(time.monotonic())) != were_up.get(url):
                log.info("%s: %s is %s", name, url, "ready" if up else "not ready")
                were_up[url] = up
        looked()
        await asyncio.sleep(scheduling.poll_seconds)


async def look(replica: Replica, upstream: Upstream, scheduling: Scheduling) -> None:
    """Updates what is known of one replica, and how many requests it is sent."""
    try:
        ready, text = await asyncio.wait_for(
            _asked(replica, upstream), max(LOOK_SECONDS, scheduling.poll_seconds)
        )
    except Unreachable:
        replica.absent()
        return
    except (Broken, asyncio.TimeoutError):
        return  # a busy engine is slow to answer, and no worse for it
    if not ready:
        replica.absent()
        return
    replica.answered()
    found = gauges(text)
    replica.running = int(found.get("num_requests_running", 0))
    replica.waiting = int(found.get("num_requests_waiting", 0))
    replica.kv = found.get("kv_cache_usage_perc", 0.0)
    measured = Measured(replica.inflight, replica.kv, replica.pace.mean())
    replica.slots = elastic.slots(replica.slots, measured, scheduling)


async def _asked(replica: Replica, upstream: Upstream) -> tuple[bool, bytes]:
    """Whether it takes requests, and its metrics. Of `/ready` a 503 alone counts: stock vLLM has none."""
    async with upstream.request("GET", replica, "/ready", None, {}, counted=False) as answer:
        await answer.content.read(MAX_BYTES)
        if answer.status == 503:
            return False, b""
    return True, await _metrics(replica, upstream)


async def _metrics(replica: Replica, upstream: Upstream) -> bytes:
    async with upstream.request("GET", replica, "/metrics", None, {}, counted=False) as answer:
        content = await answer.content.read(MAX_BYTES)
        while more := await answer.content.read(MAX_BYTES):
            if len(content) + len(more) > MAX_BYTES:
                raise Broken("metrics without end")
            content += more
        # An engine that shows none (or not to us) is up all the same.
        return content if answer.status == 200 else b""


def gauges(text: bytes) -> Mapping[str, float]:
    """vLLM's gauges: requests of all its engines together, KV memory of the fullest."""
    found: dict[str, float] = {}
    for name, number in _GAUGE.findall(text):
        key = name.decode()
        before = found.get(key, 0.0)
        try:
            value = float(number)
        except ValueError:
            continue
        if 0 <= value < 1e9:
            found[key] = max(before, value) if key == "kv_cache_usage_perc" else before + value
    return found
