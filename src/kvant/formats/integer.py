"""int8 and int4: a uniform grid with a dynamic scale per token and head (KIVI calls it per-token).

Symmetric: value = scale * (code - 2^(b-1)). Asymmetric: value = minimum + scale * code.
The scale is rounded up and the minimum down to bfloat16 before codes are chosen, so all values fit.
Effective bits at head_dim 64: 8.25 / 4.25 symmetric, 8.5 / 4.5 asymmetric.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvant.formats import packing
from kvant.formats.base import Bytes, Encoded, Format, Meta, Side, Vectors
from kvant.formats.scales import from_bf16, to_bf16_down, to_bf16_up


@dataclass(frozen=True)
class Integer(Format):
    """`bits`-wide integers, 4 or 8, symmetric or with a minimum."""

    width: int
    asymmetric: bool = False
    kind = 1

    @property
    def name(self) -> str:
        return f"int{self.width}" + ("-asym" if self.asymmetric else "")

    @property
    def bits(self) -> int:
        return self.width

    @property
    def meta(self) -> tuple[Meta, ...]:
        scale = (Meta("scale", 2),)
        return (*scale, Meta("minimum", 2)) if self.asymmetric else scale

    def code_bytes(self, head_dim: int) -> int:
        return packing.lines(self.width, head_dim) * packing.LINE

    def encode(self, x: Vectors) -> Encoded:
        x = x.astype(np.float32)
        meta: dict[str, NDArray[np.unsignedinteger]] = {}
        if self.asymmetric:
            low, steps, middle = 0, (1 << self.width) - 1, 0
            meta["minimum"] = to_bf16_down(x.min(axis=-1))
            x = x - from_bf16(meta["minimum"])[:, None]
            reach = x.max(axis=-1)
        else:
            middle = 1 << (self.width - 1)
            low, steps = 1, middle - 1
            reach = np.abs(x).max(axis=-1)
        meta["scale"] = to_bf16_up(reach / np.float32(steps))
        scale = from_bf16(meta["scale"])
        with np.errstate(divide="ignore", invalid="ignore"):
            q = np.where(scale[:, None] > 0, x / scale[:, None], 0)
        q = np.nan_to_num(np.rint(q), nan=0.0)
        codes = np.clip(q + middle, low, (1 << self.width) - 1).astype(np.uint8)
        return Encoded(codes, meta)

    def decode(self, stored: Encoded, head_dim: int) -> Vectors:
        scale = from_bf16(stored.meta["scale"])[:, None]
        if self.asymmetric:
            return stored.codes.astype(np.float32) * scale + from_bf16(stored.meta["minimum"])[:, None]
        return (stored.codes.astype(np.float32) - (1 << (self.width - 1))) * scale

    def pack(self, codes: NDArray[np.unsignedinteger], side: Side) -> Bytes:
        return packing.pack(codes, self.width, side)

    def unpack(self, data: Bytes, head_dim: int, side: Side) -> NDArray[np.unsignedinteger]:
        return packing.unpack(data, self.width, head_dim, side)
