"""Attention over packed pages in numpy, float64, one row at a time: slow, readable, the truth.

Same contract as `PagedAttention`; what every native path is tested against.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvant.cache.layout import PageLayout
from kvant.formats import TILE
from kvant.formats.base import Bytes, Vectors
from kvant.transforms import KeyTransform, ValueTransform
from kvant.transforms.rotation import rotate, unrotate

Signs = NDArray[np.float32] | None


@dataclass(frozen=True)
class ExactTokens:
    """What is read in 16 bits: of each sequence its vectors as stored, (positions, KV heads, D).

    A query at p reads j so where j < sinks[i], or j > p - window and j >= start[i].
    """

    keys: Sequence[Vectors]
    values: Sequence[Vectors]
    sinks: Sequence[int]
    start: Sequence[int]
    window: int

    def mask(self, seq: int, position: int) -> NDArray[np.bool_]:
        """Of the positions 0..position, those read in 16 bits."""
        j = np.arange(position + 1)
        return (j < self.sinks[seq]) | ((j > position - self.window) & (j >= self.start[seq]))


def encode(
    layout: PageLayout,
    pages: Bytes,
    key: Vectors,
    value: Vectors,
    slots: NDArray[np.int64],
    key_signs: Signs = None,
    value_signs: Signs = None,
    key_transform: KeyTransform | None = None,
    value_transform: ValueTransform | None = None,
) -> None:
    """Write keys and values (tokens, KV heads, D) into pages (blocks, page_bytes) at `slots` (-1 = skip)."""
    key = key if key_transform is None else key_transform.stored(key.astype(np.float32))
    value = value if value_transform is None else value_transform.stored(value.astype(np.float32))
    for side, vectors, signs in (("key", key, key_signs), ("value", value, value_signs)):
        stored = vectors if signs is None else rotate(vectors.astype(np.float32), signs)
        for token, slot in enumerate(slots):
            if slot < 0:
                continue
            block, offset = divmod(int(slot), layout.block_size)
            for head in range(layout.num_kv_heads):
                tile = layout.tile(pages, block, head, offset)
                layout.write(tile, side, offset % TILE, stored[token, head])  # type: ignore[arg-type]


def read(
    layout: PageLayout, pages: Bytes, blocks: NDArray[np.int32], head: int, start: int, stop: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Decoded keys and values of positions start..stop of one sequence and head, still rotated."""
    keys = np.zeros((stop - start, layout.head_dim))
    values = np.zeros_like(keys)
    for first in range(start // TILE * TILE, stop, TILE):
        block, offset = divmod(first, layout.block_size)
        tile = layout.tile(pages, int(blocks[block]), head, offset)
        low, high = max(first, start), min(first + TILE, stop)
        with np.errstate(invalid="ignore", over="ignore"):
            keys[low - start : high - start] = layout.read(tile, "key")[low - first : high - first]
            values[low - start : high - start] = layout.read(tile, "value")[low - first : high - first]
    return keys, values


def attend(
    layout: PageLayout,
    pages: Bytes,
    query: Vectors,
    block_table: NDArray[np.int32],
    query_start: NDArray[np.int32],
    seq_lens: NDArray[np.int32],
    *,
    scale: float,
    window: int = 0,
    softcap: float = 0.0,
    sinks: NDArray[np.float32] | None = None,
    key_signs: Signs = None,
    value_signs: Signs = None,
    key_transform: KeyTransform | None = None,
    value_transform: ValueTransform | None = None,
    exact: ExactTokens | None = None,
) -> NDArray[np.float64]:
    """Attention output (tokens, query heads, D); row i of a sequence reads all positions up to its own."""
    out = np.zeros(query.shape)
    query = query if key_transform is None else key_transform.queries(query.astype(np.float64))
    group = query.shape[1] // layout.num_kv_heads
    for seq, length in enumerate(seq_lens):
        rows = range(int(query_start[seq]), int(query_start[seq + 1]))
        for head in range(layout.num_kv_heads):
            keys, values = read_if_any(layout, pages, block_table[seq], head, len(rows), int(length), window)
            first = int(length) - len(keys)
            for row in rows:
                position = int(length) - len(rows) + (row - rows.start)
                low = max(0, position + 1 - window) if window else 0
                for h in range(head * group, (head + 1) * group):
                    q = query[row, h].astype(np.float64)
                    q = q if key_signs is None else rotate(q, key_signs[head])
                    k, v = (
                        keys[low - first : position + 1 - first],
                        values[low - first : position + 1 - first],
                    )
                    if exact is not None:
                        plain = exact.mask(seq, position)[low:, None]
                        k = np.where(plain, exact.keys[seq][low : position + 1, head], k)
                        v = np.where(plain, exact.values[seq][low : position + 1, head], v)
                    scores = k @ q * scale
                    if softcap:
                        scores = softcap * np.tanh(scores / softcap)
                    top = max(scores.max(), sinks[h] if sinks is not None else -np.inf)
                    weights = np.exp(scores - top)
                    total = weights.sum() + (np.exp(sinks[h] - top) if sinks is not None else 0)
                    o = weights @ v / total
                    out[row, h] = o if value_signs is None else unrotate(o, value_signs[head])
    return out if value_transform is None else value_transform.outputs(out).astype(np.float64)


def read_if_any(
    layout: PageLayout,
    pages: Bytes,
    blocks: NDArray[np.int32],
    head: int,
    rows: int,
    length: int,
    window: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """`read` of everything that some row of the sequence can see."""
    first = max(0, length - rows + 1 - window) if window else 0
    return read(layout, pages, blocks, head, first, length) if rows and length else (np.zeros((0, 0)),) * 2
