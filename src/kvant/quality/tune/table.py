"""What was found, as a person reads it."""

from __future__ import annotations

from collections.abc import Iterator

from kvant.quality.fidelity import table
from kvant.quality.tune import choice
from kvant.quality.tune.request import Request
from kvant.quality.tune.search import Point
from kvant.quality.tune.tune import Outcome

SHOWN = 12
"""Points of the front in the table; the JSON file has all."""


def lines(outcome: Outcome, request: Request) -> Iterator[str]:
    """Layers, front, held-out rows, verdicts."""
    yield from _layers(outcome, request)
    yield from _front(outcome, request)
    yield "\nheld-out text, what was tuned beside uniform caches"
    yield table.HEAD
    yield from map(table.line, outcome.rows)
    yield ""
    yield from map(str, outcome.verdicts)
    if len(set(outcome.chosen.rungs)) == 1:
        yield f"what was chosen is the same in every layer: {outcome.spec.name}"


def _layers(outcome: Outcome, request: Request) -> Iterator[str]:
    names = request.ladder.names
    texts = len(request.texts)
    kl = [[0.0, 0.0] for _ in range(request.layers)]
    for part in outcome.parts:
        if part.layer is not None and part.side:
            kl[part.layer][part.side == "value"] += part.kl / texts
    yield f"KL with one side of one layer in {names[0]} (tuning text, floor included), and what was chosen"
    yield f"{'layer':>5}{'keys':>10}{'values':>10}   keys/values"
    for layer, (pair, (key, value)) in enumerate(zip(outcome.chosen.rungs, kl, strict=True)):
        yield f"{layer:>5}{key:>10.5f}{value:>10.5f}   {names[pair[0]]}/{names[pair[1]]}"


def _front(outcome: Outcome, request: Request) -> Iterator[str]:
    yield f"\n{'bits':>6}{'predicted KL':>14}   layers with keys in, values in"
    for point in _some(outcome.front, outcome.chosen):
        keys, values = choice.widths(point.rungs, request.ladder)
        mark = f" < chosen; measured {outcome.tuning_kl:.5f}" if point == outcome.chosen else ""
        yield f"{point.bits:>6.3f}{point.kl:>14.5f}   {keys} / {values}{mark}"
    if request.one_size:
        yield "full and sliding-window layers share one page size: only the split of a layer is its own"


def _some(front: list[Point], chosen: Point) -> list[Point]:
    """The ends, some between, and what was chosen."""
    last = len(front) - 1
    numbers = {round(last * n / (SHOWN - 1)) for n in range(SHOWN)} | {front.index(chosen)}
    return [front[n] for n in sorted(numbers)]
