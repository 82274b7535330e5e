"""Which tiles of which sequence have a 16-bit copy, and where: sinks and the recent window.

A query at position p reads position j in 16 bits where j < sinks or j > p - window. vLLM names no
requests, so a tile is known by its block: writing its first token begins a new life, and from then on
every token is written to its codes and to its copy. Copies of running sequences are never given up,
and those of finished ones last until their pages are needed, so a prompt that continues a conversation
finds them. Where a prefix is taken from vLLM's cache and its copies are gone, the first `window` queries
after it read those tokens from their codes: `ExactStep.start` and `ExactStep.sinks` say so.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvant.errors import EngineError
from kvant.formats import TILE

NO_PAGE = np.iinfo(np.int32).min
"""Of a token that only its codes hold."""

SPARE_SEQUENCES = 32
"""Finished sequences whose copies are kept at most, for those that continue them."""

Ints = NDArray[np.int32]


@dataclass(frozen=True)
class ExactStep:
    """Pages of one step. Page n >= 0 is kept from step to step, n < 0 is staged page ~n of this step."""

    token_pages: Ints
    """(tokens,): where each new token's copy goes."""
    tiles: Ints
    """(sequences, columns): the tiles of the sinks, then those of the window from `first` on."""
    first: Ints
    """(sequences,): position of the first tile of the window."""
    start: Ints
    """(sequences,): first position of the window that has a copy (and all after it)."""
    sinks: Ints
    """(sequences,): leading tokens that are read from their copies."""
    window: int
    sink_tiles: int


def kept_pages(sinks: int, window: int, max_seqs: int) -> tuple[int, int]:
    """Pages that the sinks and the windows of so many running sequences take, spare ones included."""
    sequences = max_seqs + min(max_seqs, SPARE_SEQUENCES)
    # The window touches one tile more than it fills; speculation may step back into another.
    window_tiles = -(-window // TILE) + 2 if window else 0
    return sequences * -(-sinks // TILE), sequences * window_tiles


class Pages:
    """A fixed number of pages, each holding the copy of one tile; the longest unused is given up first."""

    def __init__(self, first: int, count: int) -> None:
        self._free = list(range(first + count - 1, first - 1, -1))
        self._page: OrderedDict[int, int] = OrderedDict()

    def find(self, tile: int) -> int | None:
        """The page of a tile, from now on the last one used."""
        page = self._page.get(tile)
        if page is not None:
            self._page.move_to_end(tile)
        return page

    def drop(self, tile: int) -> None:
        """Its block has begun a new life."""
        page = self._page.pop(tile, None)
        if page is not None:
            self._free.append(page)

    def take(self, tile: int, in_use: set[int]) -> int:
        """A page for a tile that has none."""
        if self._free:
            page = self._free.pop()
        else:
            oldest = next(iter(self._page))
            if oldest in in_use:
                raise EngineError(f"the pool of 16-bit tiles is too small: all {len(self._page)} are in use")
            page = self._page.pop(oldest)
        self._page[tile] = page
        return page

    def release(self, tile: int) -> None:
        """No running sequence needs it: the first to be given up."""
        if tile in self._page:
            self._page.move_to_end(tile, last=False)


class ExactMap:
    """The 16-bit tiles of one group of layers; one page holds a tile of all heads of a layer."""

    def __init__(self, sinks: int, window: int, block_size: int, max_seqs: int) -> None:
        self._sinks, self._window, self._block_size = sinks, window, block_size
        self._sink_tiles = -(-sinks // TILE)
        sink_pages, window_pages = kept_pages(sinks, window, max_seqs)
        self._of_sinks, self._of_window = Pages(0, sink_pages), Pages(sink_pages, window_pages)
        self.kept = sink_pages + window_pages
        self.max_seqs = max_seqs

    def staged(self, max_tokens: int) -> int:
        """Most pages that a step of so many tokens uses for tiles that no later step reads."""
        return -(-max_tokens // TILE) + self.max_seqs

    def step(self, table: Ints, query_start: Sequence[int], seq_lens: Sequence[int]) -> ExactStep:
        """Find, give and give up pages for a step; table (sequences, blocks) names vLLM's blocks."""
        seqs = len(seq_lens)
        bounds = [self._bounds(seq_lens[i], query_start[i + 1] - query_start[i]) for i in range(seqs)]
        in_use: set[int] = set()
        found: list[dict[int, int]] = []
        for i, (first, low, length) in enumerate(bounds):
            pages: dict[int, int] = {}
            for tile in (*range(min(self._sink_tiles, -(-length // TILE))), *range(low, -(-length // TILE))):
                name = self._name(table[i], tile)
                if tile * TILE < first:  # it began before this step
                    page = self._pages(tile).find(name)
                    if page is not None:
                        pages[tile] = page
                        in_use.add(name)
            found.append(pages)
        token_pages = np.full(query_start[seqs], NO_PAGE, np.int32)
        staged = 0
        for i, (first, _, length) in enumerate(bounds):
            pages = found[i]
            later = (length - self._window) // TILE - 1 if self._window else length
            for tile in range(first // TILE, -(-length // TILE)):
                if tile * TILE >= first:
                    name = self._name(table[i], tile)
                    self._of_sinks.drop(name)
                    self._of_window.drop(name)
                    if tile < self._sink_tiles or tile >= later:
                        in_use.add(name)
                        pages[tile] = self._pages(tile).take(name, in_use)
                    elif self._window:
                        pages[tile] = ~staged
                        staged += 1
                if tile in pages:
                    begin = query_start[i] - first
                    token_pages[begin + max(first, tile * TILE) : begin + min(length, (tile + 1) * TILE)] = (
                        pages[tile]
                    )
        for i, (_, low, length) in enumerate(bounds):
            for tile in range(max(low - 1, self._sink_tiles), (length - self._window) // TILE - 1):
                self._of_window.release(self._name(table[i], tile))
        return self._table(bounds, found, token_pages)

    def inherit(self, other: ExactMap, rows: Sequence[tuple[Ints, Ints, int]]) -> list[tuple[int, int]]:
        """Give rows of blocks (theirs, ours, length) what another map of this shape holds of them.

        Returns pages (theirs, ours), of which the caller copies the bytes; this map must be a new one.
        """
        pairs = []
        for theirs, ours, length in rows:
            last = -(-length // TILE)
            recent = max(self._sink_tiles, (length - self._window) // TILE - 1) if self._window else last
            for tile in (*range(min(self._sink_tiles, last)), *range(recent, last)):
                page = other._pages(tile).find(self._name(theirs, tile))
                if page is not None:
                    pairs.append((page, self._pages(tile).take(self._name(ours, tile), set())))
        return pairs

    def _bounds(self, length: int, tokens: int) -> tuple[int, int, int]:
        """Position of the first new token, first tile that its window reaches, length of the sequence."""
        first = length - tokens
        low = max(0, first + 1 - self._window) // TILE if self._window and tokens else -(-length // TILE)
        return first, low, length if tokens else 0

    def _table(
        self, bounds: list[tuple[int, int, int]], found: list[dict[int, int]], token_pages: Ints
    ) -> ExactStep:
        seqs, sinks = len(bounds), self._sink_tiles
        width = sinks + max((-(-length // TILE) - low for _, low, length in bounds), default=0)
        tiles = np.full((seqs, max(width, 1)), NO_PAGE, np.int32)
        first, start, leading = (np.zeros(seqs, np.int32) for _ in range(3))
        for i, (_, low, length) in enumerate(bounds):
            pages = found[i]
            last = -(-length // TILE)
            for tile in range(min(sinks, last)):
                tiles[i, tile] = pages.get(tile, NO_PAGE)
            present = all(tile in pages for tile in range(min(sinks, last)))
            leading[i] = min(self._sinks, length) if present else 0
            first[i] = low * TILE
            missing = last - 1
            while missing >= low and missing in pages:
                tiles[i, sinks + missing - low] = pages[missing]
                missing -= 1
            start[i] = (missing + 1) * TILE if self._window else length
        return ExactStep(token_pages, tiles, first, start, leading, self._window, sinks)

    def _pages(self, tile: int) -> Pages:
        return self._of_sinks if tile < self._sink_tiles else self._of_window

    def _name(self, blocks: Ints, tile: int) -> int:
        per_block = self._block_size // TILE
        return int(blocks[tile // per_block]) * per_block + tile % per_block
