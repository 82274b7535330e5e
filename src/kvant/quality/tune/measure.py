"""What a table of predicted KL is made of: each side of each layer alone, and each side of all layers.

One pass for each layer and side, at the narrowest format, where it stands out most from the noise of
16-bit arithmetic, says how a side's cost is shared among layers. One pass for each side and format, all
layers at once, says how that cost falls with width: KL grows faster than noise power where there is much
of it, so the ratio of two formats is measured, not taken from their distortion.

A layer that is only rotated, in 16 bits, moves predictions too: bfloat16 rounds otherwise from there on.
That floor, measured at a few layers, is as large as what the least sensitive values cost, and is taken off.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from kvant.cache.spec import CacheSpec
from kvant.formats import KEY_FORMATS, Format
from kvant.quality.tune.ladder import Ladder
from kvant.quality.tune.search import Table

if TYPE_CHECKING:
    from kvant.quality.simulated.model import Simulator
    from kvant.quality.simulated.scheme import Side

SIDES: tuple[Side, Side] = ("key", "value")


TINY = 1e-9
"""KL of what was measured below the floor, by chance."""
FLOORS = 6
"""Layers whose floor is measured; it changes slowly from one layer to the next."""
LEAST = 0.02
"""Of the mean share: no side of a layer is free, however near the floor it was measured."""


@dataclass(frozen=True)
class Part:
    """KL on one text with one side of one layer (None: of all layers) in this format, all else in 16 bits.

    With side "" it is the floor: both sides transformed, and in 16 bits.
    """

    text: str
    layer: int | None
    side: str
    format: str
    kl: float
    kl_se: float


def floors(layers: int) -> list[int]:
    """The layers whose floor is measured."""
    return sorted({round((layers - 1) * n / (FLOORS - 1)) for n in range(FLOORS)})


def passes(layers: int, ladder: Ladder) -> int:
    """Forward passes, whole or in part, that `parts` makes on each text."""
    whole = 2 * sum(not ladder.kept(rung) for rung in range(len(ladder.formats)))
    return 1 + whole + 2 * layers + len(floors(layers))


def parts(
    simulator: Simulator, text: str, ids: list[int], base: CacheSpec, ladder: Ladder, skip: int
) -> Iterator[Part]:
    """All measurements on one text; `base` gives transforms, sinks and window."""
    from kvant.quality.score import compare
    from kvant.quality.simulated.scheme import only
    from kvant.quality.simulated.sensitivity import sensitivity
    from kvant.quality.simulated.spec import scheme_of

    control, inputs = simulator.inputs(ids)
    shape = simulator.shape

    def part(layer: int | None, side: str, fmt: Format, states: Any) -> Part:
        found = compare(control, states, ids, simulator.logits, skip).summary()
        return Part(text, layer, side, fmt.name, found["kl"], found["kl_se"])

    sixteen = KEY_FORMATS["bf16"]
    exact = replace(base, key=sixteen, value=sixteen, layers=(), skip_layers=())
    still = scheme_of(exact, shape)
    yield part(None, "", sixteen, simulator.states(ids, still))
    for layer in floors(shape.layers):
        states = simulator.resume(ids, only(still, layer, "key"), layer, inputs[layer])
        yield part(layer, "", sixteen, states)
    for side in SIDES:
        for rung, fmt in enumerate(ladder.formats):
            if not ladder.kept(rung):
                spec = replace(exact, key=fmt) if side == "key" else replace(exact, value=fmt)
                yield part(None, side, fmt, simulator.states(ids, scheme_of(spec, shape)))
    narrow = ladder.formats[0]
    scheme = scheme_of(replace(exact, key=narrow, value=narrow), shape)
    for row in sensitivity(simulator, {text: ids}, scheme, skip):
        yield Part(text, row.layer, row.side, narrow.name, row.kl, row.kl_se)


def predicted(found: list[Part], layers: int, ladder: Ladder) -> Table:
    """KL above the floor (layers, 2, rungs), mean over texts: a layer's share, times what its side costs."""
    kl: dict[tuple[int | None, str, str], float] = defaultdict(float)
    texts = len({part.text for part in found})
    for part in found:
        kl[part.layer, part.side, part.format] += part.kl / texts
    known = floors(layers)
    floor = np.interp(range(layers), known, [kl[n, "", "bf16"] for n in known])
    table = np.zeros((layers, 2, len(ladder.formats)))
    for number, side in enumerate(SIDES):
        alone = np.array([kl[n, side, ladder.names[0]] for n in range(layers)]) - floor
        share = np.maximum(alone, LEAST * max(alone.mean(), 0) + TINY)
        whole = [max(kl[None, side, name] - kl[None, "", "bf16"], TINY) for name in ladder.names]
        whole = [0.0 if ladder.kept(rung) else one for rung, one in enumerate(whole)]
        table[:, number] = np.outer(share / share.sum(), np.minimum.accumulate(whole))
    return table
