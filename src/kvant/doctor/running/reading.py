"""The service reads a text: with all that went before, and again with too little context for codes to matter.

The recent window of a calibrated preset (64 tokens) is read in 16 bits. What a sound cache adds is context,
and context helps; a cache that reads something else than it wrote does harm. Without any other server, that
is the one thing that tells a broken cache from a poor model.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kvant.launch.service import Service
from kvant.quality.gate import stats
from kvant.quality.gate.client import Client
from kvant.quality.gate.material import Ruler, passage

LENGTH = 768
PIECE, SCORED = 64, 32
"""Tokens that are read at once without the rest, and how many of them, the last ones, are scored."""
ALPHA = 0.01
SEED = 0


@dataclass(frozen=True)
class Reading:
    """Mean loss of the same tokens, nats; `harm` is what context added to it (negative: it helped)."""

    near: float
    far: float
    harm: stats.Interval
    context: int
    """Tokens before the first that was scored, at least."""


def read(service: Service) -> Reading:
    """`EngineError` where the service does not score text."""
    room = service.longest and service.longest - 1
    with service.client() as client:
        whole = client.score(passage(random.Random(SEED), Ruler.of(client.length), LENGTH, room), 1)
        ids = whole.ids
        starts = range(len(ids) // 2, len(ids) - PIECE + 1, PIECE)
        near = [_last(client, ids[at : at + PIECE]) for at in starts]
    far = [whole.losses[at + PIECE - SCORED - 1 : at + PIECE - 1] for at in starts]
    harm = np.array(far).ravel() - np.array(near).ravel()
    # Of so many tokens none that was not seen counts as further than the furthest that was.
    found = stats.mean(harm, ALPHA, float(harm.min()), float(harm.max()))
    return Reading(float(np.mean(near)), float(np.mean(far)), found, starts.start + PIECE - SCORED)


def _last(client: Client, ids: Sequence[int]) -> list[float]:
    return client.score(ids, 1).losses[-SCORED:]
