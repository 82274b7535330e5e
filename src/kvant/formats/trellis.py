"""trellis: codes in a ring whose windows of 8 bits name the levels (QTIP, Tseng et al. 2024).

After a random rotation y ~ scale * step * level[state(t)], scale = rms(y) as a byte (2^(e/8)), where state(t)
is the last 8 bits of the ring of codes up to element t. So b bits choose among 256 levels, and a search over
the ring finds codes with about a third less distortion than a codebook of the same width; reading them is one
more table look-up. Effective bits at head_dim 64: b + 0.125.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvant.formats import columns, viterbi
from kvant.formats.base import TILE, Bytes, Encoded, Format, Meta, Side, Vectors
from kvant.formats.scales import from_byte, to_byte
from kvant.formats.trellis_tables import STEPS, integer_levels

TRELLIS_VERSION = "ring8-int8-v1"


@dataclass(frozen=True)
class Trellis(Format):
    """`width`-bit codes of a rotated vector, a ring of width * D bits, with its rms in a byte."""

    width: int
    kind = 5
    needs_rotation = True

    @property
    def name(self) -> str:
        return f"trellis{self.width}"

    @property
    def bits(self) -> int:
        return self.width

    @property
    def meta(self) -> tuple[Meta, ...]:
        return (Meta("scale", 1),)

    def code_bytes(self, head_dim: int) -> int:
        return TILE * head_dim * self.width // 8

    def levels(self) -> NDArray[np.float32]:
        return integer_levels(self.width).astype(np.float32) * np.float32(STEPS[self.width])

    def encode(self, x: Vectors) -> Encoded:
        """Codes are in the order of the ring (columns.py)."""
        x = x.astype(np.float32)
        rms = np.sqrt((x * x).mean(axis=-1, dtype=np.float32))
        stored = to_byte(rms)
        scale = from_byte(stored)[:, None]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            y = np.where(scale > 0, x / scale, 0).astype(np.float32)
            rows = viterbi.quantise(columns.walk(y), STEPS[self.width], self.width)
        table = viterbi.distances(integer_levels(self.width), self.width)
        return Encoded(viterbi.search(rows, table, self.width), {"scale": stored})

    def decode(self, stored: Encoded, head_dim: int) -> Vectors:
        state = viterbi.states(stored.codes, self.width)
        y: Vectors = columns.unwalk(self.levels()[state]) * from_byte(stored.meta["scale"])[:, None]
        return y

    def pack(self, codes: NDArray[np.unsignedinteger], side: Side) -> Bytes:
        return columns.pack(codes, self.width, side)

    def unpack(self, data: Bytes, head_dim: int, side: Side) -> NDArray[np.unsignedinteger]:
        return columns.unpack(data, self.width, head_dim, side)
