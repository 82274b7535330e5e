"""llama.cpp's cache types: q8_0 as it is, q4_0 after a rotation (its plain form is worse)."""

from __future__ import annotations

from kvant.quality.simulated.moments import Moments
from kvant.quality.simulated.peers.grids import q4_0, q8_0
from kvant.quality.simulated.scheme import Layer, Scheme, Shape, Transform, uniform
from kvant.quality.simulated.spec import rotation


def plain_q8_0(name: str, shape: Shape, moments: list[Moments]) -> Scheme:
    layer = Layer(lambda key, value: (q8_0(key), q8_0(value)))
    return uniform(name, 8.5, lambda number: layer)


def rotated_q4_0(name: str, shape: Shape, moments: list[Moments]) -> Scheme:
    def layer(number: int) -> Layer:
        key, value = (rotation(0, shape, number, side) for side in ("key", "value"))
        turn = Transform(None, key, key, value, value.mT.contiguous())
        return Layer(lambda k, v: (q4_0(k), q4_0(v)), turn)

    return uniform(name, 4.5, layer)
