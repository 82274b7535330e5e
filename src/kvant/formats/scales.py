"""How a per-token scale is stored: in 16 bits (bfloat16) or in 8 (a power of 2^(1/8)).

bfloat16 instead of fp16: it has the range of float32 (no overflow, no vanishing small vectors), and
its short mantissa costs nothing because codes are chosen against the *rounded* scale.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

BYTE_ZERO = 0x80
"""The byte (e = -128) that stands for a scale of exactly zero."""


def to_bf16(x: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Round to nearest, ties to even; NaN stays NaN."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(x), np.uint16(0x7FC0), rounded)


def to_bf16_up(x: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Round a non-negative number up, so that what it scales still fits."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    up = ((bits.astype(np.uint64) + 0xFFFF) >> 16).astype(np.uint16)
    return np.where(np.isfinite(x), up, to_bf16(x))


def to_bf16_down(x: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Round towards minus infinity."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32).astype(np.uint64)
    down = np.where(bits >> 31, (bits + 0xFFFF) >> 16, bits >> 16).astype(np.uint16)
    return np.where(np.isfinite(x), down, to_bf16(x))


def from_bf16(raw: NDArray[np.unsignedinteger]) -> NDArray[np.float32]:
    return (raw.astype(np.uint32) << 16).view(np.float32)


def to_byte(scale: NDArray[np.float32]) -> NDArray[np.uint8]:
    """e = round(8 log2 scale), clamped to -127..127, as a two's complement byte; 0 below 2^-16."""
    with np.errstate(divide="ignore"):
        e = np.rint(8 * np.log2(scale.astype(np.float64)))
    byte = np.clip(e, -127, 127).astype(np.int8).view(np.uint8)
    return np.where(scale < 2.0**-16, np.uint8(BYTE_ZERO), byte)


def from_byte(raw: NDArray[np.unsignedinteger]) -> NDArray[np.float32]:
    e = raw.astype(np.uint8).view(np.int8).astype(np.float64)
    value = np.exp2(e / 8).astype(np.float32)
    return np.where(raw == BYTE_ZERO, np.float32(0), value)
