"""OSCAR (Zhou et al. 2026, arXiv 2605.17757): rotations from what attention consumes, clipped int2 per token.

Keys are rotated by the eigenvectors of E[q q'], values by those of V' S' S V (S the attention matrix),
both then mixed by Hadamard; a token's grid has an fp16 scale and minimum over the head and a clipped
range; sinks and a recent window stay in 16 bits. Of the paper's rotation the permutation that only
orders the groups of larger heads is left out: here a group is the head. Sinks and window are those of
our own presets, and the clip is the best of a few for normal coordinates, which mixing makes of a vector.
"""

from __future__ import annotations

import numpy as np
import torch

from kvant.quality.simulated.moments import Moments
from kvant.quality.simulated.peers.grids import minmax
from kvant.quality.simulated.scheme import Keep, Layer, Scheme, Shape, Transform, uniform
from kvant.transforms import mix

BITS = 2
SINKS, WINDOW = 4, 64
CLIPS = (1.0, 0.9, 0.8, 0.7, 0.6)


def aligned(moment: torch.Tensor) -> torch.Tensor:
    """Eigenvectors of (H, D, D), then Hadamard: orthogonal, float32."""
    vectors = torch.linalg.eigh(moment).eigenvectors
    return torch.from_numpy(mix(np.ascontiguousarray(vectors.numpy()))).float()


def oscar(name: str, shape: Shape, moments: list[Moments]) -> Scheme:
    clip = best_clip(shape.head_dim)

    def layer(number: int) -> Layer:
        key, value = aligned(moments[number].query), aligned(moments[number].output)
        turn = Transform(None, key, key, value, value.mT.contiguous())
        keep = Keep(SINKS, WINDOW)
        return Layer(lambda k, v: (minmax(k, BITS, clip), minmax(v, BITS, clip)), turn, keep, keep)

    return uniform(name, BITS + 2 * 16 / shape.head_dim, layer)


def best_clip(head_dim: int) -> float:
    """The clip with the least error on mixed, hence nearly normal, vectors."""
    x = torch.randn((4096, head_dim), generator=torch.Generator().manual_seed(0))
    return min(CLIPS, key=lambda clip: float((minmax(x, BITS, clip) - x).square().mean()))
