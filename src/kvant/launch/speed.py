"""Step 3: first token, time per token and throughput at 1, 2, 4, ... streams at once."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from kvant.bench.serve import figures
from kvant.bench.serve.client import Stream
from kvant.errors import EngineError
from kvant.launch.result import Item, Step, Verdict
from kvant.launch.service import Service
from kvant.launch.settings import Speed
from kvant.quality.gate.material import Ruler, passage

NAME = "speed"

Turns = Sequence[figures.Turn]
Say = Callable[[str], None]


def run(service: Service, limits: Speed, most: int, say: Say) -> Step:
    """`most`: streams that the service computes together (serving.max_batch)."""
    measured: dict[int, Turns] = {}
    best = 0.0
    try:
        prompts = texts(service, limits.prompt, limits.answer)
        service.stream([next(prompts)], limits.answer)  # warm
        for streams in levels(most):
            turns = []
            for number in range(1, limits.rounds + 1):
                say(f"{streams} at once, round {number}")
                sent = [next(prompts) for _ in range(streams)]
                turns.append(_turn(service.stream(sent, limits.answer)))
            measured[streams] = turns
            reached = _median(turns, "throughput")
            if reached < (1 + limits.knee) * best:
                break
            best = reached
    except EngineError as error:
        return Step(NAME, [Item("streams", Verdict.FAIL, str(error))], _facts(measured))
    return Step(NAME, list(_items(measured, limits)), _facts(measured))


def _turn(streams: Sequence[Stream]) -> figures.Turn:
    """The time per token is what a reader of one answer sees, other prompts being computed between."""
    each = [(one.arrivals[-1][0] - one.arrivals[0][0]) / max(1, one.tokens - 1) for one in streams]
    return {**figures.of_turn(streams), "tpot": statistics.median(each)}


def levels(most: int) -> Iterator[int]:
    """1, 2, 4, ... and `most` at last."""
    streams = 1
    while streams < most:
        yield streams
        streams *= 2
    yield most


def texts(service: Service, tokens: int, answer: int) -> Iterator[str]:
    """Prompts of about so many tokens, none of which was ever sent before."""
    with service.client() as client:
        ruler = Ruler.of(client.length)
    room = service.longest and service.longest - answer
    rng = random.Random(time.time_ns())
    while True:
        yield passage(rng, ruler, tokens, room)


def _items(measured: dict[int, Turns], limits: Speed) -> Iterator[Item]:
    """The last number of streams is beyond the knee where it gained nothing; its times are only told."""
    counts = list(measured)
    for n, streams in enumerate(counts):
        turns = measured[streams]
        beyond = n > 0 and _median(turns, "throughput") < (1 + limits.knee) * max(
            _median(measured[one], "throughput") for one in counts[:n]
        )
        for name, limit, what in (("ttft", limits.ttft, "first token"), ("tpot", limits.tpot, "per token")):
            values = [value for turn in turns if (value := turn[name]) is not None]
            title = f"{what}, {streams} at once"
            if beyond or limit is None:
                why = "beyond the knee" if beyond else "no limit"
                yield Item(title, Verdict.PASS, _seconds(values), why)
            else:
                yield Item(title, at_most(values, limit), _seconds(values), f"≤ {limit:g} s")
    best = max(counts, key=lambda streams: _median(measured[streams], "throughput"))
    reached = [turn["throughput"] or 0.0 for turn in measured[best]]
    found = f"{_median(measured[best], 'throughput'):.1f} tokens/s at {best} at once"
    if limits.throughput is None:
        yield Item("throughput", Verdict.PASS, found, "no limit")
    else:
        slowness = [-value for value in reached]
        yield Item("throughput", at_most(slowness, -limits.throughput), found, f"≥ {limits.throughput:g}")


def at_most(values: Sequence[float], limit: float) -> Verdict:
    """All rounds within: pass; all beyond: fail; nothing measured, or some beyond: inconclusive."""
    beyond = sum(value > limit for value in values)
    if not values or 0 < beyond < len(values):
        return Verdict.INCONCLUSIVE
    return Verdict.FAIL if beyond else Verdict.PASS


def _median(turns: Turns, name: str) -> float:
    found = figures.summary(turns)[name]
    return float(found["median"]) if found else 0.0


def _seconds(values: Sequence[float]) -> str:
    return f"{min(values):.3f} to {max(values):.3f} s" if values else "not measured"


def _facts(measured: dict[int, Turns]) -> dict[str, Any]:
    return {str(streams): figures.summary(turns) for streams, turns in measured.items()}
