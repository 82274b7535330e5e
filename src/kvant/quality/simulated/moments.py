"""Second moments of keys, queries and outputs of a calibration text, by layer and KV head.

For the peers that fit their parameters to a model. Ours are made by `kvant calibrate`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from kvant.quality.simulated.model import Simulator


@dataclass(frozen=True)
class Moments:
    """Of one layer, float64: E[q q'] and E[o o'] over the heads of a group, (H, D, D); largest |k|, |v| (H,).

    o is what attention gives back, so E[o o'] = V' S' S V / T with the attention matrix S.
    """

    query: torch.Tensor
    output: torch.Tensor
    key_reach: torch.Tensor
    value_reach: torch.Tensor


def measure(simulator: Simulator, ids: list[int]) -> list[Moments]:
    """One forward pass of the 16-bit model."""
    found: dict[int, Moments] = {}
    heads = simulator.shape.kv_heads

    def second(x: torch.Tensor) -> torch.Tensor:
        grouped = x.reshape(heads, -1, x.shape[-1]).double()
        return grouped.mT @ grouped / grouped.shape[1]

    def observe(layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor) -> None:
        found[layer] = Moments(second(q), second(out), k.abs().amax((1, 2)), v.abs().amax((1, 2)))

    simulator.states(ids, observe=observe)
    return [found[layer] for layer in range(simulator.shape.layers)]
