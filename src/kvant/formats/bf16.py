"""bf16: the 16-bit control, through our own pages and kernels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvant.formats.base import TILE, Bytes, Encoded, Format, Meta, Side, Vectors
from kvant.formats.scales import from_bf16, to_bf16


@dataclass(frozen=True)
class BF16(Format):
    """bfloat16, token after token: (16, D) little-endian. Effective bits: 16."""

    kind = 0

    @property
    def name(self) -> str:
        return "bf16"

    @property
    def bits(self) -> int:
        return 16

    @property
    def meta(self) -> tuple[Meta, ...]:
        return ()

    def code_bytes(self, head_dim: int) -> int:
        return TILE * head_dim * 2

    def encode(self, x: Vectors) -> Encoded:
        return Encoded(to_bf16(x))

    def decode(self, stored: Encoded, head_dim: int) -> Vectors:
        return from_bf16(stored.codes)

    def pack(self, codes: NDArray[np.unsignedinteger], side: Side) -> Bytes:
        return codes.astype("<u2").view(np.uint8).reshape(-1)

    def unpack(self, data: Bytes, head_dim: int, side: Side) -> NDArray[np.unsignedinteger]:
        return data.view("<u2").reshape(TILE, head_dim)
