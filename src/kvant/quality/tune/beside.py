"""What was chosen beside uniform caches, and the front at the bits of each of them, on held-out text."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kvant.quality.fidelity.row import Row
from kvant.quality.tune import choice, search
from kvant.quality.tune.request import Request
from kvant.quality.tune.search import Point, Rungs
from kvant.quality.tune.verify import Bench, Scored, Verdict, judge


def name_of(point: Point) -> str:
    """Of a tuned cache, in rows and verdicts."""
    return f"tuned to {point.bits:.3f} bits"


def beside(
    request: Request,
    front: Sequence[Point],
    chosen: Point,
    bench: Bench,
    progress: Callable[[str, float], None],
) -> tuple[list[Row], list[Verdict]]:
    """Rows by bits; a verdict for each uniform cache against the front, and what was chosen."""
    base, ladder = request.base.spec, request.ladder
    flat = choice.uniform(request.layers, ladder)
    rivals = [(one, search.within_bits(front, request.size(one))) for one in flat]
    nearest = max(size for one in flat if (size := request.size(one)) <= chosen.bits + search.TOLERANCE)
    rivals += [(one, chosen) for one in flat if request.size(one) == nearest]
    names = {one: choice.title(one, base, ladder) for one in flat}
    for _, point in rivals:
        names.setdefault(point.rungs, name_of(point))
    names[chosen.rungs] = name_of(chosen)
    total, done = len(names) * len(bench.texts), 0

    def step() -> None:
        nonlocal done
        done += 1
        progress(f"verifying on held-out text, {done} of {total}", done / total)

    rows: list[Row] = []
    scored: dict[Rungs, Scored] = {}
    for rungs in sorted(names, key=request.size):
        spec = choice.spec_of(rungs, base, ladder)
        scored[rungs] = bench.score(spec, step)
        rows += bench.rows(request.model, names[rungs], spec, scored[rungs])

    def entry(rungs: Rungs) -> tuple[str, float, Scored]:
        return names[rungs], request.size(rungs), scored[rungs]

    pairs = dict.fromkeys((one, point.rungs) for one, point in rivals if one != point.rungs)
    return rows, [judge(entry(uniform), entry(tuned)) for uniform, tuned in pairs]
