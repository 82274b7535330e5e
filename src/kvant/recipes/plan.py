"""Which tokens a model reads at which positions: pure functions of the texts.

Sequences are `TILE` tokens long and begin at a multiple of it, so that together they cover the positions
to be served. A model with rotary positions computes the same for a text wherever it begins, so they are
what a long context would hold there, without the price of one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvant.errors import CalibrationError

TILE = 2048
LEAST_TILES = 8
LEAST = 1024
"""Tokens below which the moments of a 64-dimensional head mean little."""
SINKS = 4
"""First tokens left out: their keys are unlike all others, and presets keep them in 16 bits."""


@dataclass(frozen=True)
class Span:
    """Token ids, and the position of the first of them."""

    first: int
    tokens: NDArray[np.int64]

    @property
    def positions(self) -> NDArray[np.int64]:
        return np.arange(self.first, self.first + len(self.tokens))


def plan(texts: Sequence[Sequence[int]], length: int, prefix: Sequence[int] = ()) -> list[Span]:
    """Sequences over the positions below `length`, each begun by `prefix` (BOS), from tokenised texts.

    Sequences are cut from the texts end to end. Of more text than is read, every `TILE` tokens skip some,
    so that each text has its share; less text is read again.
    """
    ring = np.concatenate([np.asarray(text, np.int64) for text in texts])
    if len(ring) < LEAST:
        raise CalibrationError(f"the texts have {len(ring)} tokens; calibration needs {LEAST} or more")
    tiles = [(first, min(TILE, length - first)) for first in range(0, length, TILE)]
    spans = tiles * max(1, -(-LEAST_TILES // len(tiles)))
    read = np.arange(sum(size for _, size in spans))
    whole = read // TILE * TILE
    tokens = ring[(whole * max(len(ring), len(read)) // len(read) + read - whole) % len(ring)]
    parts = np.split(tokens, np.cumsum([size for _, size in spans])[:-1])
    for part in parts:
        part[: len(prefix)] = prefix
    return [
        Span(first, part)
        for (first, size), part in zip(spans, parts, strict=True)
        if size > SINKS + len(prefix)
    ]


def identity(model_digest: str, sequences: Sequence[Span]) -> str:
    """SHA-256 that names a model and everything it reads."""
    places = [(one.first, len(one.tokens)) for one in sequences]
    hashed = hashlib.sha256(json.dumps([model_digest, places]).encode())
    for one in sequences:
        hashed.update(one.tokens.astype("<i8").tobytes())
    return hashed.hexdigest()
