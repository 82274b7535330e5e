"""jl: a 1-bit Johnson-Lindenstrauss sketch of what a key format leaves over; unbiased, but noisy.

With r = y - decode(y), S orthogonal (D x D) and |r| stored as bfloat16, the estimate of q.r is
c |r| sum_i sign(S r)_i (S q)_i, which is linear in q: it is the inner product of q with
c |r| S' sign(S r), so a decoded key simply is decode(y) plus that vector (QJL, Zandieh et al. 2024).
S is two rounds of fixed signs and mixing: keys are already rotated per head, so it needs no seed.
c makes the estimate unbiased for uniformly random directions: c = 1 / (D E|u_1|), u on the unit sphere.
Measured on real models its variance costs more than its bias saves: see docs/formats.md.
Effective bits at head_dim 64 for codebook3+jl: 4.5.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from math import exp, lgamma, pi, sqrt

import numpy as np
from numpy.typing import NDArray

from kvant.formats.base import TILE, Bytes, Encoded, Format, Meta, Side, Vectors
from kvant.formats.codebook import Codebook
from kvant.formats.scales import from_bf16, to_bf16
from kvant.transforms.hadamard import mix

JL_VERSION = "two-round-hadamard-v1"


@lru_cache(maxsize=16)
def sketch_signs(head_dim: int) -> NDArray[np.float32]:
    """The two fixed sign diagonals of S, shape (2, D)."""
    raw = hashlib.shake_256(f"kvant:jl:{JL_VERSION}:{head_dim}".encode()).digest((2 * head_dim + 7) // 8)
    bits = np.unpackbits(np.frombuffer(raw, np.uint8), bitorder="little")[: 2 * head_dim]
    signs: NDArray[np.float32] = (1 - 2 * bits.astype(np.float32)).reshape(2, head_dim)
    return signs


def sketch(x: Vectors) -> Vectors:
    """S x for vectors (n, D)."""
    first, second = sketch_signs(x.shape[-1])
    z: Vectors = mix(mix(x * first) * second)
    return z


def unsketch(z: Vectors) -> Vectors:
    """S' z, the inverse of `sketch`."""
    first, second = sketch_signs(z.shape[-1])
    x: Vectors = mix(mix(z) * second) * first
    return x


def unbiasing(head_dim: int) -> float:
    """c = 1 / (D E|u_1|) with E|u_1| = Gamma(D/2) / (sqrt(pi) Gamma((D+1)/2))."""
    mean = exp(lgamma(head_dim / 2) - lgamma((head_dim + 1) / 2)) / sqrt(pi)
    return 1 / (head_dim * mean)


@dataclass(frozen=True)
class Residual(Format):
    """A codebook format for keys plus one sign bit for each dim and the norm of the residual."""

    base: Codebook
    kind = 3
    needs_rotation = True

    @property
    def name(self) -> str:
        return f"{self.base.name}+jl"

    @property
    def bits(self) -> int:
        return self.base.width

    @property
    def meta(self) -> tuple[Meta, ...]:
        return (*self.base.meta, Meta("residual", 2))

    def levels(self) -> NDArray[np.float32]:
        return self.base.levels()

    def code_bytes(self, head_dim: int) -> int:
        return self.base.code_bytes(head_dim) + TILE * head_dim // 8

    def encode(self, x: Vectors) -> Encoded:
        """Codes carry the sign bit (1 = negative) above the base's bits."""
        base = self.base.encode(x)
        rest = x.astype(np.float32) - self.base.decode(base, x.shape[-1])
        norm = to_bf16(np.sqrt((rest * rest).sum(axis=-1, dtype=np.float32)))
        negative = (sketch(rest) < 0).astype(np.uint8)
        return Encoded(
            base.codes.astype(np.uint8) | negative << np.uint8(self.base.width),
            {**base.meta, "residual": norm},
        )

    def decode(self, stored: Encoded, head_dim: int) -> Vectors:
        base = Encoded(self._low(stored.codes), stored.meta)
        signs = 1 - 2 * (stored.codes >> self.base.width).astype(np.float32)
        weight = np.float32(unbiasing(head_dim)) * from_bf16(stored.meta["residual"])
        return self.base.decode(base, head_dim) + weight[:, None] * unsketch(signs)

    def pack(self, codes: NDArray[np.unsignedinteger], side: Side) -> Bytes:
        """The base's lines, then for each token D/8 bytes of signs, little-endian bits."""
        lines = self.base.pack(self._low(codes), side)
        signs = np.packbits(codes >> self.base.width, axis=-1, bitorder="little")
        return np.concatenate((lines, signs.reshape(-1)))

    def unpack(self, data: Bytes, head_dim: int, side: Side) -> NDArray[np.unsignedinteger]:
        lines = self.base.code_bytes(head_dim)
        signs = np.unpackbits(data[lines:].reshape(TILE, -1), axis=-1, bitorder="little")
        low = self.base.unpack(data[:lines], head_dim, side).astype(np.uint8)
        return low | signs << np.uint8(self.base.width)

    def _low(self, codes: NDArray[np.unsignedinteger]) -> NDArray[np.uint8]:
        """The base's codes, without the sign bits."""
        return codes.astype(np.uint8) & np.uint8((1 << self.base.width) - 1)
