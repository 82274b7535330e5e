"""Which layer, and which of its sides, costs how much: KL when only that one is quantised.

The layers before it are what they are in the 16-bit model, so their output is kept and not computed again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kvant.quality.score import compare
from kvant.quality.simulated.model import Simulator
from kvant.quality.simulated.scheme import Scheme, Side, only


@dataclass(frozen=True)
class Sensitivity:
    """Of one side of one layer on one text."""

    layer: int
    side: Side
    text: str
    kl: float
    kl_se: float


def sensitivity(
    simulator: Simulator, texts: Mapping[str, list[int]], scheme: Scheme, skip: int
) -> Iterator[Sensitivity]:
    """Two rows for each layer and text: its keys alone, its values alone; positions from `skip` on."""
    for text, ids in texts.items():
        control, inputs = simulator.inputs(ids)
        for layer in range(simulator.shape.layers):
            for side in ("key", "value"):
                states = simulator.resume(ids, only(scheme, layer, side), layer, inputs[layer])
                found = compare(control, states, ids, simulator.logits, skip).summary()
                yield Sensitivity(layer, side, text, found["kl"], found["kl_se"])
