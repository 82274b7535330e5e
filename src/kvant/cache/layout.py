"""The bytes of a page (a vLLM block): heads, then tiles of 16 tokens, keys and values together.

    page  = [KV head][tile]
    tile  = [key codes][value codes][key metadata arrays][value metadata arrays]

A metadata array holds one number for each of the 16 tokens. All tiles of a head are contiguous and
all heads of a page too, so a page is exactly num_kv_heads * block_size * bytes_per_token bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kvant.errors import GeometryError
from kvant.formats import TILE, Encoded, Format
from kvant.formats.base import Bytes, Side, Vectors

LAYOUT_VERSION = "tile16-v1"


@dataclass(frozen=True)
class PageLayout:
    """Where everything lies in a page of `block_size` tokens of `num_kv_heads` heads (of this rank)."""

    key: Format
    value: Format
    head_dim: int
    num_kv_heads: int
    block_size: int

    def __post_init__(self) -> None:
        self.key.check_head_dim(self.head_dim)
        self.value.check_head_dim(self.head_dim)
        if self.block_size % TILE or self.block_size <= 0:
            raise GeometryError(f"block_size {self.block_size}: must be a positive multiple of {TILE}")
        assert self.tile_bytes == TILE * self.bytes_per_token_head

    @cached_property
    def value_codes(self) -> int:
        """Offset of the value codes in a tile; key codes are at 0."""
        return self.key.code_bytes(self.head_dim)

    @cached_property
    def key_meta(self) -> int:
        """Offset of the key metadata in a tile."""
        return self.value_codes + self.value.code_bytes(self.head_dim)

    @cached_property
    def value_meta(self) -> int:
        """Offset of the value metadata in a tile."""
        return self.key_meta + TILE * sum(m.bytes for m in self.key.meta)

    @cached_property
    def tile_bytes(self) -> int:
        return self.key.tile_bytes(self.head_dim) + self.value.tile_bytes(self.head_dim)

    @property
    def bytes_per_token_head(self) -> int:
        """Bytes one token takes in one KV head of one layer, key and value."""
        return self.tile_bytes // TILE

    @property
    def page_bytes(self) -> int:
        return self.num_kv_heads * self.block_size * self.bytes_per_token_head

    @property
    def effective_bits(self) -> float:
        """Bits per stored value, all metadata and padding counted (mean of keys and values)."""
        return self.bytes_per_token_head * 8 / (2 * self.head_dim)

    def tile(self, pages: Bytes, block: int, head: int, token: int) -> Bytes:
        """The bytes of the tile that holds `token` of a block; pages is (blocks, page_bytes)."""
        start = (head * (self.block_size // TILE) + token // TILE) * self.tile_bytes
        return pages[block, start : start + self.tile_bytes]

    def write(self, tile: Bytes, side: Side, slot: int, vector: Vectors) -> None:
        """Encode one transformed vector (D,) into token `slot` of a tile, in place."""
        fmt, codes, meta = self._side(side)
        stored = fmt.encode(vector[None])
        region = tile[codes : codes + fmt.code_bytes(self.head_dim)]
        tokens = fmt.unpack(region, self.head_dim, side).copy()
        tokens[slot] = stored.codes[0]
        region[:] = fmt.pack(tokens, side)
        for array in fmt.meta:
            numbers = tile[meta : meta + TILE * array.bytes].view(f"<u{array.bytes}")
            numbers[slot] = stored.meta[array.name][0]
            meta += TILE * array.bytes

    def read(self, tile: Bytes, side: Side) -> Vectors:
        """Decode the 16 vectors of a tile, (16, D), still transformed."""
        fmt, codes, meta = self._side(side)
        region = np.ascontiguousarray(tile[codes : codes + fmt.code_bytes(self.head_dim)])
        numbers: dict[str, NDArray[np.unsignedinteger]] = {}
        for array in fmt.meta:
            raw = np.ascontiguousarray(tile[meta : meta + TILE * array.bytes])
            numbers[array.name] = raw.view(f"<u{array.bytes}")
            meta += TILE * array.bytes
        return fmt.decode(Encoded(fmt.unpack(region, self.head_dim, side), numbers), self.head_dim)

    def _side(self, side: Side) -> tuple[Format, int, int]:
        if side == "key":
            return self.key, 0, self.key_meta
        return self.value, self.value_codes, self.value_meta


def fitting_block(token_bytes: int, page_bytes: int) -> int:
    """Most tokens of `token_bytes` that a page holds, whole tiles; 0 where not even one tile fits."""
    return page_bytes // token_bytes // TILE * TILE
