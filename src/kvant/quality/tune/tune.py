"""Measure, search, verify: one model from its recipe to a better one, or to the news that there is none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from kvant.cache.spec import CacheSpec
from kvant.errors import ConfigError
from kvant.quality.fidelity import measure as fidelity
from kvant.quality.fidelity.row import Row
from kvant.quality.tune import choice, search
from kvant.quality.tune.beside import beside, name_of
from kvant.quality.tune.measure import Part, parts, passes, predicted
from kvant.quality.tune.notebook import Notebook
from kvant.quality.tune.request import Request
from kvant.quality.tune.search import Point, Rungs
from kvant.quality.tune.verify import Bench, Verdict, mean

if TYPE_CHECKING:
    from kvant.quality.simulated.model import Simulator

    Progress = Callable[[str, float], None]

METHOD = 1
"""Goes up when `parts` measures something else: kept measurements are then made again."""
ROUNDS = 5
"""Most points measured for --kl: predictions are a few per cent off, so two or three do."""


@dataclass(frozen=True)
class Outcome:
    """`chosen` measured `tuning_kl` on the tuning texts; rows and verdicts are of the held-out ones."""

    parts: list[Part]
    front: list[Point]
    chosen: Point
    spec: CacheSpec
    tuning_kl: float
    rows: list[Row]
    verdicts: list[Verdict]

    @property
    def name(self) -> str:
        """Of what was chosen, in rows and verdicts."""
        return name_of(self.chosen)


def tune(request: Request, progress: Progress = lambda step, fraction: None) -> Outcome:
    """`ConfigError` if no choice on the ladder is within the budget."""
    progress("loading the model", 0.0)
    ids = fidelity.tokens(request.folder, request.texts, request.settings)
    other = fidelity.tokens(request.folder, request.held_out, request.verify)
    simulator = fidelity.loaded(request.folder, request.settings)
    found = _measure(request, simulator, ids, progress)
    table = predicted(found, request.layers, request.ladder)
    walk = search.one_size if request.one_size else search.free
    front = walk(table, request.ladder.bytes, request.unit)
    progress("searching", 0.0)
    bench = Bench(simulator, ids, request.settings)
    chosen, kl = _choose(request, front, bench)
    spec = choice.spec_of(chosen.rungs, request.base.spec, request.ladder)
    rows, verdicts = beside(request, front, chosen, Bench(simulator, other, request.verify), progress)
    return Outcome(found, front, chosen, spec, kl, rows, verdicts)


def _measure(request: Request, simulator: Simulator, ids: fidelity.Ids, progress: Progress) -> list[Part]:
    """Of all tuning texts; those that an earlier run measured are read."""
    made = request.base.facts
    key = {
        "method": METHOD,
        "model": made.model.digest,
        "cache": made.cache.model_dump(include={"rotate", "seed", "sinks", "window"}),
        "calibration": made.calibration and made.calibration.sha256,
        "ladder": request.ladder.names,
        "settings": asdict(request.settings),
    }
    total = passes(request.layers, request.ladder) * len(ids)
    found: list[Part] = []
    for text, tokens in ids.items():
        notebook = Notebook(made.model.digest, {**key, "text": text, "ids": tokens})
        spec = request.base.spec
        fresh = parts(simulator, text, tokens, spec, request.ladder, request.settings.skip)
        for part in notebook.parts or notebook.keep(fresh):
            found.append(part)
            progress(f"sensitivity, {len(found)} of {total} passes", len(found) / total)
    return found


def _choose(request: Request, front: list[Point], bench: Bench) -> tuple[Point, float]:
    """A point of the front within the budget, and its KL as measured on the tuning texts."""

    def measured(point: Point) -> float:
        return mean(bench.score(choice.spec_of(point.rungs, request.base.spec, request.ladder)))

    if request.bits is not None:
        point = search.within_bits(front, request.bits)
        return point, measured(point)
    assert request.kl is not None
    seen: dict[Rungs, tuple[Point, float]] = {}
    point = search.within_kl(front, request.kl)
    while point.rungs not in seen and len(seen) < ROUNDS:
        seen[point.rungs] = point, measured(point)
        # Predictions are off by about the same factor all along the front.
        point = search.within_kl(front, point.kl * request.kl / max(seen[point.rungs][1], 1e-12))
    kept = [one for one in seen.values() if one[1] <= request.kl]
    if not kept:
        least = min(kl for _, kl in seen.values())
        raise ConfigError(
            f"--kl {request.kl:g}: this --ladder reached {least:.5f} on the tuning texts; "
            "allow more, or add a wider format"
        )
    return min(kept, key=lambda one: one[0].bits)


def facts(outcome: Outcome, request: Request) -> dict[str, Any]:
    """The outcome as JSON, beside what `kvant fidelity --json` says of machine and texts."""

    def point(one: Point) -> dict[str, Any]:
        names = request.ladder.names
        return {
            "bits": one.bits,
            "kl": one.kl,
            "layers": [f"{names[key]}/{names[value]}" for key, value in one.rungs],
        }

    return {
        "model": request.model,
        "recipe": str(request.output),
        "ladder": list(request.ladder.names),
        "budget": {"bits": request.bits, "kl": request.kl},
        "tuning": asdict(request.settings) | {"texts": [text.name for text in request.texts]},
        "one_page_size": request.one_size,
        "sensitivity": [asdict(part) for part in outcome.parts],
        "front": [point(one) for one in outcome.front],
        "chosen": point(outcome.chosen) | {"name": outcome.name, "tuning_kl": outcome.tuning_kl},
        "rows": [row.to_json() for row in outcome.rows],
        "verdicts": [asdict(one) | {"better": one.better} for one in outcome.verdicts],
    }
