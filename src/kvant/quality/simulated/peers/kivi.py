"""KIVI (Liu et al. 2024): keys per channel over 32 tokens, values per token over 32 channels, min and max.

Both grids carry an fp16 scale and an fp16 minimum for 32 values: one bit more than their codes. Keys are
quantised a residual of 128 tokens at a time (the unfinished one stays in 16 bits), values when they are
128 tokens old: the paper's setting. Its prefill attends in 16 bits; here every query reads what one that
decodes at its position would.
"""

from __future__ import annotations

import torch
from torch.nn.functional import pad

from kvant.quality.simulated.moments import Moments
from kvant.quality.simulated.peers.grids import blocks_of, minmax
from kvant.quality.simulated.scheme import Keep, Layer, Scheme, Shape, uniform

GROUP, RESIDUAL = 32, 128


def per_channel(key: torch.Tensor, bits: int) -> torch.Tensor:
    """Keys (H, T, D) over groups of 32 tokens; an unfinished group is never read from its codes."""
    tokens = key.shape[1]
    groups = pad(key, (0, 0, 0, -tokens % GROUP)).unflatten(1, (-1, GROUP))
    return minmax(groups.mT.contiguous(), bits).mT.flatten(1, 2)[:, :tokens]


def per_token(value: torch.Tensor, bits: int) -> torch.Tensor:
    return minmax(blocks_of(value, GROUP), bits).flatten(-2)


def kivi(bits: int, name: str, shape: Shape, moments: list[Moments]) -> Scheme:
    layer = Layer(
        lambda key, value: (per_channel(key, bits), per_token(value, bits)),
        keys=Keep(block=RESIDUAL),
        values=Keep(window=RESIDUAL),
    )
    return uniform(name, bits + 2 * 16 / GROUP, lambda number: layer)
