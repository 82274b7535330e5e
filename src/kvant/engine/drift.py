"""Whether the errors a worker makes are still those of the text it was calibrated on.

A state without clock, engine or log: samples go in, a verdict comes out. Each sample is in units of the
spread that calibration saw, so their root mean square, the drift, is 1 on text as it was calibrated on; it
grows when errors are larger, smaller or more uneven than they were.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from kvant.cache.ranges import SIDES

KEPT = 256
"""Samples that are judged together; older ones are forgotten."""
LEAST = 64
"""Samples below which nothing is judged."""
BEGINS, ENDS = 1.75, 1.5
"""Drift of keys and values together at which the alarm begins, and below which it ends."""
MOST = 20.0
"""Deviation that a head counts at most, so that one odd block is no alarm."""

Turn = Literal["begins", "ends"]


@dataclass
class Drift:
    """The recent samples: numbers of layers, and squares (2,) of deviations of keys and values."""

    layers: deque[int] = field(default_factory=lambda: deque(maxlen=KEPT))
    squares: deque[NDArray[np.float64]] = field(default_factory=lambda: deque(maxlen=KEPT))
    samples: int = 0
    alarm: bool = False

    def add(self, layer: int, deviations: NDArray[np.float64]) -> Turn | None:
        """One sample (2, KV heads) of a layer; says when the alarm begins or ends."""
        self.layers.append(layer)
        self.squares.append((deviations.clip(-MOST, MOST) ** 2).mean(1))
        self.samples += 1
        if len(self.squares) < LEAST:
            return None
        drift = self.overall
        if not self.alarm and drift > BEGINS:
            self.alarm = True
            return "begins"
        if self.alarm and drift < ENDS:
            self.alarm = False
            return "ends"
        return None

    @property
    def overall(self) -> float:
        """Keys and values together."""
        return float(np.sqrt(np.mean(self.squares)))

    def by_side(self) -> dict[str, float]:
        """`key` and `value`; empty while there are too few samples."""
        if len(self.squares) < LEAST:
            return {}
        return dict(zip(SIDES, np.sqrt(np.mean(self.squares, 0)).tolist(), strict=True))

    def worst(self) -> tuple[int, str, float]:
        """Layer and side that drifted most, and how far."""
        numbers = np.asarray(self.layers)
        squares = np.asarray(self.squares)
        found = {
            (int(n), side): float(np.sqrt(squares[numbers == n, at].mean()))
            for n in set(self.layers)
            for at, side in enumerate(SIDES)
        }
        layer, side = max(found, key=lambda name: found[name])
        return layer, side, found[layer, side]
