"""What every storage format is: codes and a little metadata per vector, in tiles of 16 tokens.

A *tile* holds 16 tokens of one KV head. A format says how many code bytes a tile takes, which
per-token metadata arrays follow, and how vectors become codes and back (numpy, the reference).
The bytes of a whole tile, keys and values together, are laid out in `kvant.cache.layout`.

To add a format: one frozen dataclass in one file here, a row in `formats/registry.py`, a decoder in
`kernels/native/core`; the tests walk the registry.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from kvant.errors import GeometryError

TILE = 16
"""Tokens in a tile."""

Side = Literal["key", "value"]
Bytes = NDArray[np.uint8]
Vectors = NDArray[np.float32]


@dataclass(frozen=True)
class Meta:
    """One per-token metadata array of a tile: `bytes` for each of its 16 tokens."""

    name: str
    bytes: int


@dataclass(frozen=True)
class Encoded:
    """Vectors as stored: `codes` (n, ...) and raw metadata (n,) by name, unsigned integers."""

    codes: NDArray[np.unsignedinteger]
    meta: dict[str, NDArray[np.unsignedinteger]] = field(default_factory=dict)


class Format(ABC):
    """How one vector (a key or a value of one head) is stored."""

    kind: ClassVar[int]
    """The native kernels' number for this family of formats (core/layout.h)."""
    needs_rotation: ClassVar[bool] = False
    """True where the code assumes the density of rotated coordinates."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name `parse` understands, e.g. `codebook3+jl`."""

    @property
    @abstractmethod
    def bits(self) -> int:
        """Width of a code."""

    @property
    @abstractmethod
    def meta(self) -> tuple[Meta, ...]:
        """The per-token metadata arrays, in stored order."""

    @abstractmethod
    def code_bytes(self, head_dim: int) -> int:
        """Code bytes of one tile (16 tokens) of one side."""

    @abstractmethod
    def encode(self, x: Vectors) -> Encoded:
        """Encode vectors (n, D), already transformed."""

    @abstractmethod
    def decode(self, stored: Encoded, head_dim: int) -> Vectors:
        """Decode to (n, D) float32, still transformed."""

    @abstractmethod
    def pack(self, codes: NDArray[np.unsignedinteger], side: Side) -> Bytes:
        """The code bytes of one tile from the codes of its 16 tokens."""

    @abstractmethod
    def unpack(self, data: Bytes, head_dim: int, side: Side) -> NDArray[np.unsignedinteger]:
        """The inverse of `pack`."""

    def levels(self) -> NDArray[np.float32]:
        """Values of the codes in units of the scale, for formats that have a table; else empty."""
        return np.empty(0, np.float32)

    def tile_bytes(self, head_dim: int) -> int:
        """All bytes of one side of a tile."""
        return self.code_bytes(head_dim) + TILE * sum(m.bytes for m in self.meta)

    def bits_per_value(self, head_dim: int) -> float:
        """Effective bits per value, metadata and padding counted."""
        return self.tile_bytes(head_dim) * 8 / (TILE * head_dim)

    def check_head_dim(self, head_dim: int) -> None:
        """Refuse a head size this format cannot store."""
        if head_dim % 16 or not 16 <= head_dim <= 512:
            below, above = head_dim // 16 * 16, (head_dim // 16 + 1) * 16
            raise GeometryError(
                f"head_dim {head_dim}: format {self.name} stores multiples of 16 from 16 to 512 "
                f"(nearest: {max(16, below)}, {min(512, above)})"
            )

    def __str__(self) -> str:
        return self.name
