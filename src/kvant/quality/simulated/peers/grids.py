"""Rounding to the grids of other projects: (..., n) vectors in, the values they are read back as out."""

from __future__ import annotations

import torch

from kvant.errors import GeometryError


def blocks_of(x: torch.Tensor, size: int) -> torch.Tensor:
    """(..., n) to (..., n / size, size)."""
    if x.shape[-1] % size:
        raise GeometryError(f"head_dim {x.shape[-1]}: this peer stores blocks of {size}; leave out --peers")
    return x.unflatten(-1, (-1, size))


def fp8(x: torch.Tensor, scale: torch.Tensor | float = 1.0) -> torch.Tensor:
    """float8 e4m3 (OCP), saturating at 448."""
    return (x / scale).clamp(-448, 448).to(torch.float8_e4m3fn).float() * scale


def q8_0(x: torch.Tensor) -> torch.Tensor:
    """ggml's q8_0: blocks of 32, scale max|x| / 127 in fp16. 8.5 bits."""
    blocks = blocks_of(x, 32)
    scale = blocks.abs().amax(-1, keepdim=True) / 127
    codes = (blocks / scale.clamp_min(1e-30)).round()
    return (codes * scale.half().float()).flatten(-2)


def q4_0(x: torch.Tensor) -> torch.Tensor:
    """ggml's q4_0: blocks of 32, an fp16 scale that puts the largest value at -8. 4.5 bits."""
    blocks = blocks_of(x, 32)
    largest = blocks.gather(-1, blocks.abs().argmax(-1, keepdim=True))
    scale = largest / -8
    inverse = torch.where(scale == 0, 0, 1 / scale)
    codes = (blocks * inverse + 8.5).floor().clamp(0, 15) - 8
    return (codes * scale.half().float()).flatten(-2)


def minmax(x: torch.Tensor, bits: int, clip: float = 1.0) -> torch.Tensor:
    """Asymmetric grid over the last axis with an fp16 scale and minimum; `clip` shrinks the range."""
    low, high = x.amin(-1, keepdim=True), x.amax(-1, keepdim=True)
    middle, half = (low + high) / 2, (high - low) / 2 * clip
    steps = (1 << bits) - 1
    low = (middle - half).half().float()
    scale = (2 * half / steps).half().float().clamp_min(1e-7)
    return ((x - low) / scale).round().clamp(0, steps) * scale + low
