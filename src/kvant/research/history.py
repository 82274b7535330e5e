"""What the rows of a batch have seen: columns of tokens and padding, and the tables they lie in."""

from __future__ import annotations

import copy

import numpy as np
import torch
from numpy.typing import NDArray

from kvant.errors import EngineError
from kvant.research.step import Copies, Kind, Step
from kvant.research.table import Table

CHUNK = 512
"""Tokens of a row that go through the kernels at once; bounds the pages of a sliding window, and scratch.

Results do not depend on it: which precision a token is read in is a matter of positions alone.
"""


class History:
    """One for all layers of a cache: the first layer of a forward pass begins it, the others follow."""

    def __init__(self, whole: bool) -> None:
        """`whole`: later layers read what earlier ones wrote, so nothing may be let go in between."""
        self.real: NDArray[np.bool_] = np.zeros((0, 0), np.bool_)
        """(rows, columns): the columns that are tokens. Padding is stored nowhere."""
        self.closed = False
        self._whole, self._waits = whole, False
        self._tables: dict[Kind, Table] = {}
        self._steps: dict[Kind, list[Step]] = {}

    @property
    def columns(self) -> int:
        return int(self.real.shape[1])

    def begin(self, rows: int, count: int, mask: torch.Tensor | None) -> None:
        """`count` more columns; mask (rows, all columns), true or 1 where a token is, None: everywhere."""
        past = self.columns
        if past and rows != len(self.real):
            raise EngineError(f"the cache holds a batch of {len(self.real)}, not of {rows}: reset() it first")
        shape = (rows, past + count)
        if mask is not None and tuple(mask.shape) != shape:
            raise EngineError(
                f"attention_mask: expected {shape} (batch, cached + new tokens), got {tuple(mask.shape)}"
            )
        real = np.ones(shape, np.bool_) if mask is None else mask.numpy(force=True).astype(np.bool_)
        if past and not np.array_equal(real[:, :past], self.real):
            raise EngineError(
                "attention_mask: differs from earlier steps in columns that the cache already holds; "
                "padding is not stored and cannot become a token later, nor a token padding"
            )
        self.real = real
        self._steps.clear()

    def fresh(self, count: int) -> NDArray[np.bool_]:
        """(rows, count): which of the newest columns are tokens."""
        return self.real[:, self.columns - count :]

    def table(self, kind: Kind) -> Table:
        if kind not in self._tables:
            self._tables[kind] = Table(kind, len(self.real))
            self._tables[kind].waits = self._waits
        return self._tables[kind]

    def steps(self, kind: Kind, count: int) -> list[Step]:
        """What the forward pass that was begun does in layers of a kind."""
        if kind not in self._steps:
            counts = self.fresh(count).sum(1, dtype=np.int32)
            table = self.table(kind)
            if not np.array_equal(table.lengths + counts, self.real.sum(1)):
                raise EngineError("a forward pass was interrupted, or left layers out: reset() the cache")
            self._steps[kind] = table.steps(counts, max(1, count) if self._whole else CHUNK)
        return self._steps[kind]

    def crop(self, columns: int) -> None:
        """Forget the newest columns; `EngineError`, and nothing forgotten, where that cannot be."""
        real = self.real[:, : self.columns - columns]
        for table in self._tables.values():
            table.check_crop(real.sum(1))
        for table in self._tables.values():
            table.crop(real.sum(1))
        self.real = real
        self._steps.clear()

    def select(self, rows: NDArray[np.int64]) -> dict[Kind, tuple[Table, Copies]]:
        """Continue these rows, each as often as it is named; returns the tables and what layers copy."""
        self.real = self.real[rows]
        chosen = {kind: table.select(rows) for kind, table in self._tables.items()}
        self._tables = {kind: table for kind, (table, _) in chosen.items()}
        self._steps.clear()
        return chosen

    def wait(self) -> None:
        """Let nothing slide out of sight before the next crop."""
        self._waits = True
        for table in self._tables.values():
            table.waits = True

    def reset(self) -> None:
        self.real = np.zeros((0, 0), np.bool_)
        self._tables.clear()
        self._steps.clear()

    def __deepcopy__(self, memo: object) -> History:
        twin = History(self._whole)
        twin.real, twin._waits = self.real.copy(), self._waits
        twin._tables = copy.deepcopy(self._tables)
        return twin
