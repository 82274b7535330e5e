"""What a table of predicted KL is made of: each side of each layer alone, and each side of all layers.

One pass for each layer and side, at the narrowest format, where it stands out most from the noise of
16-bit arithmetic, says how a side's cost is shared among layers. One pass for each side and format, all
layers at once, says how that cost falls with width: KL grows faster than noise power where there is much
of it, so the ratio of two formats is measured, not taken from their distortion.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from kvant.cache.spec import CacheSpec
from kvant.formats import KEY_FORMATS
from kvant.quality.tune.ladder import Ladder
from kvant.quality.tune.search import Table

if TYPE_CHECKING:
    from kvant.quality.simulated.model import Simulator
    from kvant.quality.simulated.scheme import Side

SIDES: tuple[Side, Side] = ("key", "value")


@dataclass(frozen=True)
class Part:
    """KL on one text with one side of one layer (None: of all layers) in this format, all else in 16 bits."""

    text: str
    layer: int | None
    side: str
    format: str
    kl: float
    kl_se: float


def passes(layers: int, ladder: Ladder) -> int:
    """Forward passes, whole or in part, that `parts` makes on each text."""
    return 2 * (layers + sum(not ladder.kept(rung) for rung in range(len(ladder.formats))))


def parts(
    simulator: Simulator, text: str, ids: list[int], base: CacheSpec, ladder: Ladder, skip: int
) -> Iterator[Part]:
    """All measurements on one text; `base` gives transforms, sinks and window."""
    from kvant.quality.score import compare
    from kvant.quality.simulated.sensitivity import sensitivity
    from kvant.quality.simulated.spec import scheme_of

    control = simulator.states(ids)
    exact = replace(base, key=KEY_FORMATS["bf16"], value=KEY_FORMATS["bf16"], layers=(), skip_layers=())
    for side in SIDES:
        for rung, fmt in enumerate(ladder.formats):
            if ladder.kept(rung):
                continue
            spec = replace(exact, key=fmt) if side == "key" else replace(exact, value=fmt)
            states = simulator.states(ids, scheme_of(spec, simulator.shape))
            found = compare(control, states, ids, simulator.logits, skip).summary()
            yield Part(text, None, side, fmt.name, found["kl"], found["kl_se"])
    narrow = ladder.formats[0]
    scheme = scheme_of(replace(exact, key=narrow, value=narrow), simulator.shape)
    for row in sensitivity(simulator, {text: ids}, scheme, skip):
        yield Part(text, row.layer, row.side, narrow.name, row.kl, row.kl_se)


def predicted(found: list[Part], layers: int, ladder: Ladder) -> Table:
    """KL (layers, 2, rungs), mean over texts: a layer's share of its side, times what the side costs."""
    texts = len({part.text for part in found})
    share, whole = np.zeros((layers, 2)), np.zeros((2, len(ladder.formats)))
    for part in found:
        side = ("key", "value").index(part.side)
        if part.layer is None:
            whole[side, ladder.names.index(part.format)] += part.kl / texts
        else:
            share[part.layer, side] += part.kl / texts
    table: Table = (share / share.sum(0))[:, :, None] * whole
    return table
