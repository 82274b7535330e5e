"""What a step tells the layers of a cache, the same for all layers of a kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from kvant.kernels import Batch, Exact

Ints: TypeAlias = NDArray[np.int32]


@dataclass(frozen=True)
class Kind:
    """What layers have in common that share a table."""

    block_size: int
    sinks: int
    window: int
    sliding: int
    """Tokens that a query of the layer sees at all; 0 = all."""
    copy_bytes: int
    """Of one tile's 16-bit copy (`exact_layout`)."""


@dataclass(frozen=True)
class Step:
    """What one call of the kernels is given."""

    tokens: NDArray[np.int64] | slice
    """Which tokens of the forward pass (row after row, without padding) it encodes and attends for."""
    slots: NDArray[np.int64]
    batch: Batch
    exact: Exact | None
    pages: int
    """Pages that a layer must have by now."""
    longest: int


@dataclass(frozen=True)
class Copies:
    """What a layer copies when rows are chosen anew: (from, to) of its pages and of its 16-bit tiles."""

    pages: Ints
    tiles: Ints
