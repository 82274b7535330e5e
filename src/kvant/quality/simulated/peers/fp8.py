"""fp8 e4m3, as vLLM's `kv_cache_dtype=fp8`: scale 1, or one scale per head from a calibration text."""

from __future__ import annotations

import torch

from kvant.quality.simulated.moments import Moments
from kvant.quality.simulated.peers.grids import fp8
from kvant.quality.simulated.scheme import Layer, Scheme, Shape, uniform


def plain(name: str, shape: Shape, moments: list[Moments]) -> Scheme:
    layer = Layer(lambda key, value: (fp8(key), fp8(value)))
    return uniform(name, 8.0, lambda number: layer)


def per_head(name: str, shape: Shape, moments: list[Moments]) -> Scheme:
    """Scales are of the layer, not of the token: no bits."""

    def layer(number: int) -> Layer:
        reach = moments[number]
        key, value = (x[:, None, None] / 448 for x in (reach.key_reach, reach.value_reach))

        def store(k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return fp8(k, key), fp8(v, value)

        return Layer(store)

    return uniform(name, 8.0, layer)
