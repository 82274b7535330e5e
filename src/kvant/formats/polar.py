"""polar: the recursive form of PolarQuant (Han et al. 2025), for reference and comparison.

A block of 16 rotated values is 8 points in the plane: 8 angles of 4 bits and 8 radii. The radii are
paired again: 4 angles, then 2, then 1, of 2 bits each, and one radius for the block in bfloat16.
Angles of the first level are uniform; at level l >= 2 their density is sin(2 a)^(2^(l-1) - 1) on
0..pi/2, so Lloyd-Max centres are known beforehand and no scale per angle is stored.
46 bits of angles + 16 of radius for 16 values: 3.875 effective bits, the distortion of about 3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvant.formats.base import TILE, Bytes, Encoded, Format, Meta, Side, Vectors
from kvant.formats.scales import from_bf16, to_bf16

POLAR_VERSION = "block16-4222-v1"
BLOCK = 16
ANGLE_BITS = 46
# Lloyd-Max centres of levels 2, 3, 4 in units of pi.
CENTRES = np.pi * np.array(
    [
        [0.09859864, 0.20180200, 0.29819800, 0.40140136],
        [0.13567980, 0.21466438, 0.28533562, 0.36432020],
        [0.16686282, 0.22469823, 0.27530177, 0.33313718],
    ]
)


@dataclass(frozen=True)
class Polar(Format):
    """Angles of nested pairs; token after token, 46 bits a block (little-endian), then the radii."""

    kind = 4
    needs_rotation = True

    @property
    def name(self) -> str:
        return "polar"

    @property
    def bits(self) -> int:
        return 4

    @property
    def meta(self) -> tuple[Meta, ...]:
        return ()

    def token_bytes(self, head_dim: int) -> int:
        """Bytes of one token: the angles of all blocks, padded to a byte, and a radius each."""
        blocks = head_dim // BLOCK
        return (blocks * ANGLE_BITS + 7) // 8 + 2 * blocks

    def code_bytes(self, head_dim: int) -> int:
        return TILE * self.token_bytes(head_dim)

    def encode(self, x: Vectors) -> Encoded:
        """Codes are the stored bytes of a token, (n, token_bytes)."""
        n, head_dim = x.shape
        pairs = x.astype(np.float32).reshape(n, head_dim // BLOCK, BLOCK)
        fields: list[NDArray[np.uint8]] = []
        for level in range(4):
            a, b = pairs[..., 0::2], pairs[..., 1::2]
            angle = np.arctan2(b, a)
            if level == 0:
                sixteenth = np.floor(angle * np.float32(8 / np.pi)).astype(np.int64)
                fields.append(np.unpackbits((sixteenth & 15).astype(np.uint8)[..., None], -1, 4, "little"))
            else:
                edges = (CENTRES[level - 1][1:] + CENTRES[level - 1][:-1]) / 2
                code = np.searchsorted(edges.astype(np.float32), angle).astype(np.uint8)
                fields.append(np.unpackbits(code[..., None], -1, 2, "little"))
            pairs = np.sqrt(a * a + b * b)
        bits = np.concatenate([f.reshape(n, head_dim // BLOCK, -1) for f in fields], axis=-1)
        angles = np.packbits(bits.reshape(n, -1), axis=-1, bitorder="little")
        radii = to_bf16(pairs[..., 0]).astype("<u2").view(np.uint8)
        return Encoded(np.concatenate((angles, radii.reshape(n, -1)), axis=-1))

    def decode(self, stored: Encoded, head_dim: int) -> Vectors:
        n, blocks = len(stored.codes), head_dim // BLOCK
        split = stored.codes.shape[1] - 2 * blocks
        bits = np.unpackbits(stored.codes[:, :split], axis=-1, bitorder="little")
        bits = bits[:, : blocks * ANGLE_BITS].reshape(n, blocks, ANGLE_BITS)
        radius = from_bf16(np.ascontiguousarray(stored.codes[:, split:]).view("<u2")).reshape(n, blocks, 1)
        ends = (32, 40, 44, 46)
        for level in (3, 2, 1):
            code = bits[..., ends[level - 1] : ends[level]].reshape(n, blocks, -1, 2) @ np.array([1, 2])
            radius = _spread(radius, CENTRES[level - 1][code])
        code = bits[..., :32].reshape(n, blocks, 8, 4) @ np.array([1, 2, 4, 8])
        return _spread(radius, (code + 0.5) * (np.pi / 8)).reshape(n, head_dim)

    def pack(self, codes: NDArray[np.unsignedinteger], side: Side) -> Bytes:
        return codes.astype(np.uint8).reshape(-1)

    def unpack(self, data: Bytes, head_dim: int, side: Side) -> NDArray[np.unsignedinteger]:
        return data.reshape(TILE, self.token_bytes(head_dim))


def _spread(radius: NDArray[np.float32], angle: NDArray[np.float64]) -> NDArray[np.float32]:
    """Radii (..., k) and angles (..., k) to the 2k values they stand for."""
    both = np.stack((radius * np.cos(angle), radius * np.sin(angle)), axis=-1)
    return both.reshape(*radius.shape[:-1], -1).astype(np.float32)
