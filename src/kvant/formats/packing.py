"""Where the codes of a tile lie: lines of 64 bytes that SIMD can decode without a shuffle.

A *plane* is 64 codes, one for each byte of a line; a tile of 16 tokens and D dims has D/4 planes.

    key    plane d/4,                                   byte 4*t + d%4
    value  plane 16*u + (w/16)*(t/4) + (d%64)/16,       byte 4*(d%16) + t%4
           with u = d/64 and w = min(64, D - 64*u), the width of the unit

so a dword of a key plane is 4 dims of one token (the lane of a dot product is the token), a dword of
a value plane is 4 tokens of one dim. Planes share lines by width:

    8 bit  plane z is line z
    4 bit  line z/2, bits 4*(z%2)
    2 bit  line z/4, bits 2*(z%4)
    3 bit  three lines hold eight planes: planes 0..5 in pairs in bits 0-2 and 3-5; the low two bits
           of planes 6 and 7 in bits 6-7 of lines 0 and 2, their high bits in bits 6 and 7 of line 1.
           Four planes left over (D = 80) take two lines.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from kvant.formats.base import TILE, Bytes, Side

LINE = 64


def lines(bits: int, head_dim: int) -> int:
    """64-byte lines of one side of a tile."""
    planes = head_dim // 4
    return {8: planes, 4: planes // 2, 3: planes // 8 * 3 + planes % 8 // 2, 2: planes // 4}[bits]


@lru_cache(maxsize=64)
def positions(head_dim: int, side: Side) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """(plane, byte) of every (token, dim), two arrays of shape (16, D)."""
    t, d = np.meshgrid(np.arange(TILE), np.arange(head_dim), indexing="ij")
    if side == "key":
        return d // 4, 4 * t + d % 4
    unit = d // 64
    width = np.minimum(64, head_dim - 64 * unit)
    return 16 * unit + width // 16 * (t // 4) + d % 64 // 16, 4 * (d % 16) + t % 4


def pack(codes: NDArray[np.unsignedinteger], bits: int, side: Side) -> Bytes:
    """Codes (16, D) of `bits` bits to the lines of one tile, flat bytes."""
    head_dim = codes.shape[1]
    plane, byte = positions(head_dim, side)
    planes = np.zeros((head_dim // 4, LINE), np.uint8)
    planes[plane, byte] = codes.astype(np.uint8)
    out = np.zeros((lines(bits, head_dim), LINE), np.uint8)
    for z, line in enumerate(planes):
        for target, down, mask, up in _pieces(bits, z):
            out[target] |= ((line >> down) & mask) << up
    return out.reshape(-1)


def unpack(data: Bytes, bits: int, head_dim: int, side: Side) -> Bytes:
    """The inverse of `pack`: codes (16, D)."""
    rows = data.reshape(-1, LINE)
    planes = np.zeros((head_dim // 4, LINE), np.uint8)
    for z in range(head_dim // 4):
        for target, down, mask, up in _pieces(bits, z):
            planes[z] |= ((rows[target] >> up) & mask) << down
    plane, byte = positions(head_dim, side)
    return planes[plane, byte]


def _pieces(bits: int, z: int) -> list[tuple[int, int, int, int]]:
    """Where plane z lies: pieces of (line, bits to drop, mask, position in the byte)."""
    if bits == 3:
        base, r = z // 8 * 3, z % 8
        if r < 6:
            return [(base + r // 2, 0, 7, 3 * (r % 2))]
        return [(base + (0 if r == 6 else 2), 0, 3, 6), (base + 1, 2, 1, r)]
    per_line = 8 // bits
    return [(z // per_line, 0, (1 << bits) - 1, bits * (z % per_line))]
