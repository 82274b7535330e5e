"""Where the bits of a ring lie: in columns of bytes, so that SIMD finds every window with two shifts.

The elements of a ring are the dims 0, 4, 8, ..., then 1, 5, 9, ..., then 2, 6, ..., then 3, 7, ...: four
columns of D/4 elements, b bits each, most significant first. Column q of token t is one byte of each 64-byte
line, from the first line to the last:

    key    byte 4*t + q
    value  byte 16*(t/4) + 4*q + t%4

so the 8 bits that end with an element lie in one line, or in it and the line before, at the same place for
all tokens. They give 4 dims of 16 tokens in the order of a key plane (packing.py), or a quarter of four value
planes.

A column of 3-bit codes may end with half a byte (D = 80): those of columns q and q+2 share a byte of half a
line, q in its low bits: byte 2*t + q for keys, 8*(t/4) + 4*q + t%4 for values.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from kvant.formats.base import TILE, Bytes, Side

COLUMNS = 4
LINE = 64
Number = TypeVar("Number", bound=np.generic)


def walk(x: NDArray[Number]) -> NDArray[Number]:
    """Vectors (n, D) in the order of the ring."""
    return x.reshape(len(x), -1, COLUMNS).swapaxes(1, 2).reshape(x.shape)


def unwalk(x: NDArray[Number]) -> NDArray[Number]:
    """The inverse of `walk`."""
    return x.reshape(len(x), COLUMNS, -1).swapaxes(1, 2).reshape(x.shape)


@lru_cache(maxsize=4)
def _bytes(side: Side, columns: int) -> NDArray[np.intp]:
    """The byte of every (token, column) in a line of 16 * columns bytes."""
    t, q = np.meshgrid(np.arange(TILE), np.arange(columns), indexing="ij")
    place: NDArray[np.intp] = columns * t + q if side == "key" else 4 * columns * (t // 4) + 4 * q + t % 4
    return place


def pack(codes: NDArray[np.unsignedinteger], bits: int, side: Side) -> Bytes:
    """Codes (16, D), in the order of the ring, to the bytes of one tile."""
    each = codes.astype(np.uint8)[..., None] >> np.arange(bits - 1, -1, -1, dtype=np.uint8) & 1
    columns = np.packbits(each.reshape(TILE, COLUMNS, -1), axis=-1)
    whole = codes.shape[1] * bits // (8 * COLUMNS)
    lines = np.zeros((whole, LINE), np.uint8)
    lines[:, _bytes(side, COLUMNS)] = columns[..., :whole].transpose(2, 0, 1)
    if columns.shape[-1] == whole:
        return lines.reshape(-1)
    half = np.zeros(LINE // 2, np.uint8)
    last = columns[..., whole]
    half[_bytes(side, 2)] = last[:, :2] >> 4 | last[:, 2:]
    return np.concatenate((lines.reshape(-1), half))


def unpack(data: Bytes, bits: int, head_dim: int, side: Side) -> NDArray[np.uint8]:
    """The inverse of `pack`."""
    whole = head_dim * bits // (8 * COLUMNS)
    lines = data[: whole * LINE].reshape(whole, LINE)
    columns = lines[:, _bytes(side, COLUMNS)].transpose(1, 2, 0)
    if data.size > whole * LINE:
        half = data[whole * LINE :][_bytes(side, 2)]
        last = np.concatenate((half << 4, half & 0xF0), axis=1)
        columns = np.concatenate((columns, last[..., None]), axis=2)
    each = np.unpackbits(columns, axis=-1, count=head_dim // COLUMNS * bits).reshape(TILE, head_dim, bits)
    codes: NDArray[np.uint8] = (each << np.arange(bits - 1, -1, -1, dtype=np.uint8)).sum(-1, dtype=np.uint8)
    return codes
