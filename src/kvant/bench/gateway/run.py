"""The run: all sides in turns, round after round, each under the same load."""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvant.bench.gateway import client, sides
from kvant.bench.gateway.client import Heard
from kvant.bench.gateway.sides import BARE
from kvant.bench.serve.server import Server, end_all
from kvant.child import free_port

HOLD_SECONDS_PER_TOKEN = 1.0
QUANTILES = (0.5, 0.9, 0.99)


@dataclass(frozen=True)
class Plan:
    """`per_token` in seconds; `seconds` of one turn of one side."""

    streams: int = 64
    tokens: int = 64
    per_token: float = 0.05
    rounds: int = 5
    seconds: float = 8.0
    held: int = 1000
    held_seconds: float = 20.0
    start_seconds: float = 120.0
    litellm: Path | None = None


def measure(plan: Plan, say: Callable[[str], None]) -> dict[str, Any]:
    """Milliseconds of each side by quantile, and what each proxy adds to the bare engine."""
    with tempfile.TemporaryDirectory(prefix="kvant-bench-") as name, _servers(plan, Path(name)) as urls:
        turns: dict[str, list[Heard]] = {side: [] for side in urls}
        for number in range(plan.rounds):
            # Whoever goes first in one round goes last in the next.
            order = list(urls) if number % 2 == 0 else list(urls)[::-1]
            for side in order:
                heard = asyncio.run(
                    client.load(urls[side], plan.streams, plan.tokens, plan.seconds, plan.per_token)
                )
                turns[side].append(heard)
                say(f"round {number + 1}, {side}: {_words(heard)}")
        found: dict[str, Any] = {"sides": {side: _figures(heard) for side, heard in turns.items()}}
        found["added"] = {side: _added(turns[BARE], turns[side]) for side in urls if side != BARE}
    return found


def hold(plan: Plan, say: Callable[[str], None]) -> dict[str, Any]:
    """So many streams held open through Kvant's gateway."""
    with tempfile.TemporaryDirectory(prefix="kvant-bench-") as name:
        slow = Plan(per_token=HOLD_SECONDS_PER_TOKEN, start_seconds=plan.start_seconds)
        with _servers(slow, Path(name)) as urls:
            tokens = max(2, int(plan.held_seconds / HOLD_SECONDS_PER_TOKEN))
            heard = asyncio.run(client.hold(urls[sides.KVANT], plan.held, tokens, plan.held_seconds / 4))
    say(f"{plan.held} streams held: {_words(heard)}")
    expected = plan.held * tokens
    return {"streams": plan.held, "expected_tokens": expected, **_figures([heard])}


@contextlib.contextmanager
def _servers(plan: Plan, folder: Path) -> Iterator[dict[str, str]]:
    """Side to URL, all of them running."""
    started: list[Server] = []
    try:
        engine = Server(sides.stub(port := free_port(), plan.per_token), port, folder / "stub.log")
        started.append(engine)
        port = free_port()
        started.append(Server(sides.kvant(port, engine.url, folder), port, folder / "kvant.log"))
        if plan.litellm is not None:
            side = sides.litellm(port := free_port(), engine.url, folder, plan.litellm)
            started.append(Server(side, port, folder / "litellm.log"))
        for server in started:
            server.wait(plan.start_seconds)
        yield {server.name: server.url for server in started}
    finally:
        end_all(started)


def _figures(turns: list[Heard]) -> dict[str, Any]:
    delays = [one for heard in turns for one in heard.delays]
    firsts = [one for heard in turns for one in heard.firsts]
    return {
        "tokens": len(delays),
        "failures": sum(heard.failures for heard in turns),
        "token_ms": _quantiles(delays),
        "first_ms": _quantiles(firsts),
    }


def _quantiles(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    if not ordered:
        return {}
    return {f"p{q * 100:g}": 1000 * ordered[min(len(ordered) - 1, int(q * len(ordered)))] for q in QUANTILES}


def _added(bare: list[Heard], proxy: list[Heard]) -> dict[str, Any]:
    """Median over the rounds of the difference to the bare engine in the same round, and its range."""
    found: dict[str, Any] = {}
    for name in ("token_ms", "first_ms"):
        pairs = [
            (_figures([before])[name], _figures([after])[name])
            for before, after in zip(bare, proxy, strict=True)
        ]
        for q in QUANTILES:
            word = f"p{q * 100:g}"
            values = [after[word] - before[word] for before, after in pairs if before and after]
            if values:
                found[f"{name.removesuffix('_ms')}_{word}_ms"] = {
                    "median": statistics.median(values),
                    "min": min(values),
                    "max": max(values),
                }
    return found


def _words(heard: Heard) -> str:
    found = _figures([heard])
    token = ", ".join(f"{name} {value:.2f}" for name, value in found["token_ms"].items())
    return f"{found['tokens']} tokens, ms on their way: {token}; {found['failures']} failures"
