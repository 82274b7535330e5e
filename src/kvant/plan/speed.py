"""Tokens a second that the bandwidth allows: a decode step reads the weights and every cache once."""

from __future__ import annotations

from dataclasses import dataclass

from kvant.plan.contexts import Contexts
from kvant.plan.geometry import HALF, Model
from kvant.plan.precision import Precision
from kvant.plan.room import Room

GB = 1e9


@dataclass(frozen=True)
class Speed:
    """An upper bound: what computes, what communicates and what prefills is not in it."""

    seconds: float
    """Of one step."""
    tokens: float
    """A second, all requests together."""
    cache_share: float
    """Part of the bytes that the cache is."""


def speed(model: Model, precision: Precision, contexts: Contexts, room: Room, requests: int) -> Speed:
    """With so many requests running, each in the middle of its answer."""
    weights = model.bytes_read(requests) / room.ranks
    middle = [max(1, round(length - contexts.answer / 2)) for length in contexts.lengths]
    cache, _ = contexts.over(_read(model, precision, room.ranks, length) for length in middle)
    total = weights + requests * cache
    seconds = total / (room.device.bandwidth_gb_s * GB * room.efficiency)
    return Speed(seconds, requests / seconds, requests * cache / total)


def _read(model: Model, precision: Precision, ranks: int, tokens: int) -> int:
    """Bytes of the cache that a rank reads for the next token of a request of so many."""
    total, count = 0, len(model.layers)
    for number, layer in enumerate(model.layers):
        mine = layer.of_rank(ranks)
        seen = min(tokens, layer.window) if layer.window else tokens
        copied = min(seen, precision.copied(number))
        total += (seen - copied) * precision.token_bytes(number, mine, count) + copied * mine.width * HALF
    return total
