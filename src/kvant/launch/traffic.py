"""Mixed load: short and long prompts, greedy and sampled, streamed and not, some given up half-way."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from kvant.launch.service import Service, trusted
from kvant.launch.settings import Soak

TIMEOUT = httpx.Timeout(600.0, connect=30.0)
PROBE_TOKENS = 16
"""Of the one request that is asked again and again and timed."""
KINDS = ("short", "long", "sampled", "chat", "given up")
GIVE_UP = 0.5


@dataclass
class Seen:
    """What the load has met. `probes` are (seconds since the start, seconds the same request took)."""

    begun: threading.Event = field(default_factory=threading.Event)

    asked: int = 0
    failed: list[str] = field(default_factory=list)
    probes: list[tuple[float, float]] = field(default_factory=list)


@contextmanager
def running(service: Service, soak: Soak, prompts: Iterator[str]) -> Iterator[Seen]:
    """The load, in a thread of its own, from entering to leaving; an error of its own ends the block."""
    seen, over = Seen(), threading.Event()
    texts = [next(prompts) for _ in range(64)]
    with ThreadPoolExecutor(1) as pool:
        load = pool.submit(lambda: asyncio.run(_all(service, soak, texts, seen, over)))
        load.add_done_callback(lambda _: seen.begun.set())
        try:
            seen.begun.wait()
            yield seen
        finally:
            over.set()
        load.result()


async def _all(service: Service, soak: Soak, texts: Sequence[str], seen: Seen, over: threading.Event) -> None:
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(
        base_url=service.url,
        timeout=TIMEOUT,
        limits=limits,
        trust_env=False,
        headers=service.headers,
        verify=trusted(),
    ) as client:
        workers = [_work(client, service, soak, texts, seen, over, n) for n in range(soak.streams)]
        await asyncio.gather(_probe(client, service, texts[0], seen, over), *workers)


async def _work(
    client: httpx.AsyncClient,
    service: Service,
    soak: Soak,
    texts: Sequence[str],
    seen: Seen,
    over: threading.Event,
    number: int,
) -> None:
    rng = random.Random(number)
    while not over.is_set():
        kind = rng.choice(KINDS)
        path, body = _request(kind, service.model, soak, rng.choice(texts), rng)
        seen.asked += 1
        seen.begun.set()
        try:
            if kind == "given up":
                await _give_up(client, path, body)
            else:
                _check(await client.post(path, json=body), seen, kind)
        except httpx.HTTPError as error:
            seen.failed.append(f"{kind}: {type(error).__name__}")
            await asyncio.sleep(1.0)


def _request(kind: str, model: str, soak: Soak, text: str, rng: random.Random) -> tuple[str, dict[str, Any]]:
    # A beginning of its own, so that the prefix cache does not answer.
    text = f"{rng.getrandbits(48):x} {text if kind in ('long', 'given up') else text[: rng.randint(40, 400)]}"
    body: dict[str, Any] = {"model": model, "max_tokens": rng.randint(1, soak.answer)}
    if kind == "chat":
        return "/v1/chat/completions", body | {"messages": [{"role": "user", "content": text}]}
    if kind == "sampled":
        body |= {"temperature": 0.8, "seed": rng.getrandbits(31)}
    return "/v1/completions", body | {"prompt": text, "stream": kind == "given up"}


def _check(answer: httpx.Response, seen: Seen, kind: str) -> None:
    if answer.status_code != 200:
        seen.failed.append(f"{kind}: status {answer.status_code}")


async def _give_up(client: httpx.AsyncClient, path: str, body: dict[str, Any]) -> None:
    """A client that leaves while its answer is being written: its blocks must come back."""
    async with client.stream("POST", path, json=body) as answer:
        async for _ in answer.aiter_lines():
            break
        await asyncio.sleep(GIVE_UP * random.random())


async def _probe(
    client: httpx.AsyncClient, service: Service, text: str, seen: Seen, over: threading.Event
) -> None:
    began = time.monotonic()
    body = {
        "model": service.model,
        "max_tokens": PROBE_TOKENS,
        "temperature": 0,
        "ignore_eos": True,
    }
    number = 0
    while not over.is_set():
        number += 1
        sent = time.monotonic()
        try:
            answer = await client.post("/v1/completions", json=body | {"prompt": f"{number} {text[:400]}"})
            _check(answer, seen, "probe")
        except httpx.HTTPError as error:
            seen.failed.append(f"probe: {type(error).__name__}")
            await asyncio.sleep(1.0)
            continue
        seen.probes.append((sent - began, time.monotonic() - sent))
