"""Keys and values of a few blocks of the calibration text: what the range of errors is measured on.

Kept beside the moments, so that another preset of the model needs no model.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvant.formats import TILE
from kvant.recipes.observe import Observer
from kvant.recipes.plan import Span
from kvant.whole import write

VERSION = "samples-v2"
PIECE = 96
"""Tokens of one of the short texts that are read."""
PIECES = 60
KNOTS = (0.0, 0.125, 0.25, 0.5, 0.75, 1.0)
"""Where pieces begin, as shares of the positions: each place has several, from all over the texts."""


@dataclass(frozen=True)
class Samples:
    """The last `TILE` tokens of each piece, a block, which begin at `positions` (blocks,).

    By layer with a cache of its own: (2, blocks * TILE, KV heads, D), keys after rotary embedding and values.
    """

    positions: NDArray[np.int64]
    layers: dict[int, NDArray[np.float16]]


def pieces(texts: Sequence[Sequence[int]], length: int, prefix: Sequence[int] = ()) -> list[Span]:
    """What is read, each begun by `prefix` (BOS), at positions below `length`."""
    ring = np.concatenate([np.asarray(text, np.int64) for text in texts])
    size = min(PIECE, length)
    found = []
    for n in range(PIECES):
        tokens = ring[(n * len(ring) // PIECES + np.arange(size)) % len(ring)]
        tokens[: len(prefix)] = prefix
        found.append(Span(int(KNOTS[n % len(KNOTS)] * (length - size)), tokens))
    return found


def read(observer: Observer, spans: Sequence[Span], step: Callable[[int], None]) -> Samples:
    """Run the model over the pieces and keep their blocks; the observer's moments stay as they are."""
    kept: dict[int, list[Any]] = {}

    def keep(layer: int, key: Any, value: Any) -> None:
        both = [side[:, -TILE:].transpose(0, 1).float().cpu().numpy() for side in (key, value)]
        kept.setdefault(layer, []).append(np.stack(both))

    with observer.showing(keep):
        for span in spans:
            observer.read(span, step)
    positions = np.array([span.first + len(span.tokens) - TILE for span in spans])
    layers = {n: np.concatenate(blocks, 1).astype(np.float16, order="C") for n, blocks in kept.items()}
    return Samples(positions, layers)


def save(path: Path, samples: Samples, identity: str) -> None:
    """Whole or not at all; `identity` names the model and the tokens."""
    from safetensors.numpy import save as packed

    tensors = {str(layer): one for layer, one in sorted(samples.layers.items())}
    facts = {"version": VERSION, "identity": identity, "positions": samples.positions.tolist()}
    write(path, packed(tensors, {"kvant": json.dumps(facts, sort_keys=True)}))


def load(path: Path, identity: str) -> Samples | None:
    """What an earlier run left; None where there is nothing of these inputs or it is damaged."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "numpy") as file:
            facts = json.loads((file.metadata() or {}).get("kvant", "{}"))
            if (facts.get("version"), facts.get("identity")) != (VERSION, identity):
                return None
            layers = {int(name): file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError, ValueError):
        return None
    return Samples(np.asarray(facts["positions"], np.int64), layers)
