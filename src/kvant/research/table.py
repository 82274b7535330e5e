"""Where the tokens of every row of a batch lie: one block table for all layers of a kind."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kvant.cache.exact import NO_PAGE, SPARE_SEQUENCES, ExactMap
from kvant.errors import EngineError
from kvant.kernels import Batch, Exact
from kvant.research.step import Copies, Ints, Kind, Step


class Table:
    """Rows that grow over the pages of one kind of layer, each at its own length.

    Blocks that slid out of sight of every later query are used again. Page 0 then stands for them.
    """

    def __init__(self, kind: Kind, rows: int) -> None:
        self.kind = kind
        self.lengths: Ints = np.zeros(rows, np.int32)
        self.pages = 1 if kind.sliding else 0
        self.waits = False
        """Whether nothing is let go before `crop`, which may step back."""
        self._blocks: Ints = np.zeros((rows, 1), np.int32)
        self._gone = [0] * rows
        self._free: list[int] = []
        # One step may need the windows of its first and of its last tokens, and the map makes room for two
        # per row only where rows are few.
        rooms = max(rows, 2 * rows - SPARE_SEQUENCES)
        self._map = (
            ExactMap(kind.sinks, kind.window, kind.block_size, rooms) if kind.sinks or kind.window else None
        )

    @property
    def copies(self) -> int:
        """16-bit tiles that a layer keeps from step to step."""
        return self._map.kept if self._map else 0

    def steps(self, counts: Ints, chunk: int) -> list[Step]:
        """Make room for `counts` more tokens of each row, at most `chunk` of a row in a step."""
        begins = np.cumsum(counts) - counts
        return [
            self._step(np.clip(counts - done, 0, chunk).astype(np.int32), begins + done)
            for done in range(0, int(counts.max()), chunk)
        ]

    def check_crop(self, lengths: Ints) -> None:
        """`EngineError` where what the tokens before these lengths saw is gone."""
        for gone, length in zip(self._gone, lengths.tolist(), strict=True):
            if gone > self._first(length):
                raise EngineError(
                    f"crop to {length} tokens: what their window of {self.kind.sliding} held is gone; "
                    "call activate_past_recording() before the tokens that may be taken back, or reset()"
                )

    def crop(self, lengths: Ints) -> None:
        """Forget the tokens from these lengths on, and let go what `waits` has held back."""
        for row, (old, new) in enumerate(zip(self.lengths.tolist(), lengths.tolist(), strict=True)):
            kept, there = (-(-length // self.kind.block_size) for length in (new, old))
            self._free += self._blocks[row, kept:there].tolist()
        self.lengths = lengths.astype(np.int32)
        self._let_go()

    def select(self, rows: NDArray[np.int64]) -> tuple[Table, Copies]:
        """A table whose row i continues row `rows[i]` of this one, and what its layers copy."""
        twin = Table(self.kind, len(rows))
        twin.waits, twin.lengths = self.waits, self.lengths[rows]
        twin._gone = [self._gone[row] for row in rows]
        twin._grow(twin._gone)
        there = self._blocks[rows]
        pages = [
            np.stack([side[i, gone:last] for side in (there, twin._blocks)], 1)
            for i, (gone, last) in enumerate(zip(twin._gone, twin._needed().tolist(), strict=True))
        ]
        tiles: list[tuple[int, int]] = []
        if self._map and twin._map:
            lengths = twin.lengths.tolist()
            tiles = twin._map.inherit(self._map, list(zip(there, twin._blocks, lengths, strict=True)))
        return twin, Copies(np.concatenate(pages), np.array(tiles, np.int32).reshape(-1, 2))

    def _step(self, counts: Ints, begins: NDArray[np.int64]) -> Step:
        if not self.waits:
            self._let_go()
        before, held = self.lengths, self._needed().tolist()
        self.lengths = before + counts
        self._grow(held)
        size = self.kind.block_size
        slots, tokens = [], []
        for row, (low, high) in enumerate(zip(before.tolist(), self.lengths.tolist(), strict=True)):
            positions = np.arange(low, high)
            slots.append(self._blocks[row, positions // size].astype(np.int64) * size + positions % size)
            tokens.append(begins[row] + np.arange(high - low))
        start = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
        blocks = self._blocks.copy()
        exact = self._exact(blocks, start, before) if self._map else None
        return Step(
            _slice(np.concatenate(tokens)),
            np.concatenate(slots),
            Batch(blocks, start, self.lengths),
            exact,
            self.pages,
            int(self.lengths.max()),
        )

    def _exact(self, blocks: Ints, start: Ints, before: Ints) -> Exact:
        """The 16-bit tiles of a step; `EngineError` rather than codes where a copy should be."""
        assert self._map is not None
        step = self._map.step(blocks, start.tolist(), self.lengths.tolist())
        seen = min(self.kind.window, self.kind.sliding or self.kind.window)
        for row in np.flatnonzero(np.diff(start)):
            whole = self._gone[row] or step.sinks[row] == min(self.kind.sinks, self.lengths[row])
            if not whole or (seen and step.start[row] > max(0, before[row] + 1 - seen)):
                raise EngineError(
                    f"row {row}: the 16-bit copies of its recent window are gone after crop() took back too "
                    "many tokens; reset() the cache and give it the whole text again"
                )
        staged = -int(step.token_pages[step.token_pages != NO_PAGE].min(initial=0))
        return Exact(
            step, np.empty(staged * self.kind.copy_bytes, np.uint8), self.kind.copy_bytes, self._map.kept
        )

    def _grow(self, held: list[int]) -> None:
        """Blocks for all tokens of rows that have so many."""
        needed = self._needed()
        if (width := int(needed.max())) > self._blocks.shape[1]:
            self._blocks = np.pad(self._blocks, ((0, 0), (0, width + width // 2 - self._blocks.shape[1])))
        for row, (low, high) in enumerate(zip(held, needed.tolist(), strict=True)):
            for block in range(low, high):
                if not self._free:
                    self._free.append(self.pages)
                    self.pages += 1
                self._blocks[row, block] = self._free.pop()

    def _needed(self) -> Ints:
        return -(-self.lengths // self.kind.block_size)

    def _let_go(self) -> None:
        for row, length in enumerate(self.lengths.tolist()):
            first = self._first(length)
            self._free += self._blocks[row, self._gone[row] : first].tolist()
            self._blocks[row, self._gone[row] : first] = 0
            self._gone[row] = max(first, self._gone[row])

    def _first(self, length: int) -> int:
        """The first block that a query at position `length` sees something of."""
        return max(0, length + 1 - self.kind.sliding) // self.kind.block_size if self.kind.sliding else 0


def _slice(tokens: NDArray[np.int64]) -> NDArray[np.int64] | slice:
    """Consecutive numbers as a slice, which copies nothing."""
    first, last = int(tokens[0]), int(tokens[-1])
    return slice(first, last + 1) if last + 1 - first == len(tokens) else tokens
