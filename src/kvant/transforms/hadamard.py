"""The deterministic orthogonal mixing of a head: Walsh-Hadamard where it exists, Hartley across blocks.

A head of `D = m * p` values, `p` the largest power of two that divides it, is an m x p matrix.
Rows are mixed by the p x p Walsh-Hadamard matrix (natural order), columns by the m x m Hartley
matrix cas(2 pi i j / m). Both are symmetric and, scaled by 1/sqrt(size), orthogonal, so every
output sees every input for any D (80 = 5 x 16, 96 = 3 x 32) and the mixing is its own inverse.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]


def split(head_dim: int) -> tuple[int, int]:
    """Factor `head_dim` as (m, p): m odd, p the largest power of two."""
    p = head_dim & -head_dim
    return head_dim // p, p


def hartley(m: int) -> NDArray[np.float64]:
    """The orthonormal m x m Hartley matrix, symmetric and its own inverse."""
    angle = 2 * np.pi * (np.outer(np.arange(m), np.arange(m)) % m) / m
    matrix: NDArray[np.float64] = (np.cos(angle) + np.sin(angle)) / np.sqrt(m)
    return matrix


def mix(x: Floats) -> Floats:
    """Mix the last axis orthonormally: shape (..., D) to (..., D), dtype kept; its own inverse."""
    head_dim = x.shape[-1]
    m, p = split(head_dim)
    y = x.reshape(-1, m, p)
    step = 1
    while step < p:
        pairs = y.reshape(-1, m, p // (2 * step), 2, step)
        a, b = pairs[..., 0, :], pairs[..., 1, :]
        y = np.stack((a + b, a - b), axis=-2).reshape(-1, m, p)
        step *= 2
    y = y * x.dtype.type(1 / np.sqrt(p))
    if m > 1:
        y = hartley(m).astype(x.dtype) @ y
    return y.reshape(x.shape)


unmix = mix
