"""The front of bits against KL, exactly: pure functions of a table of predicted KL.

`kl` is (layers, 2, rungs): what keys (0) or values (1) of a layer cost at a rung; sides add up. `sizes`
is (rungs,): bytes of a vector. `unit` is what one byte of one vector of one layer adds to the bits of a
stored value of the model.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Table = NDArray[np.float64]
Rungs = tuple[tuple[int, int], ...]
"""Of keys and values, for each layer."""

TOLERANCE = 1e-9
"""Of a comparison of bits, which are sums of fractions."""


@dataclass(frozen=True)
class Point:
    """One choice for the whole model: bits of a stored value, predicted KL in nats."""

    bits: float
    kl: float
    rungs: Rungs


def free(kl: Table, sizes: Sequence[int], unit: float) -> list[Point]:
    """Every layer and side for itself.

    The least KL of every total size, by dynamic programming over the sides: sizes are small integers,
    so it is exact and takes milliseconds.
    """
    items = kl.reshape(-1, len(sizes))
    least = min(sizes)
    step = int(np.gcd.reduce([size - least for size in sizes]))
    extra = [(size - least) // step for size in sizes]
    best = np.full(len(items) * max(extra) + 1, np.inf)
    best[0] = 0
    taken = np.empty((len(items), len(best)), np.int8)
    for item, choice in zip(items, taken, strict=True):
        options = np.full((len(sizes), len(best)), np.inf)
        for rung, more in enumerate(extra):
            options[rung, more:] = best[: len(best) - more] + item[rung]
        choice[:] = options.argmin(0)
        best = options.min(0)

    def point(total: int) -> Point:
        at, chosen = total, []
        for choice in taken[::-1]:
            chosen.append(int(choice[at]))
            at -= extra[chosen[-1]]
        sides = chosen[::-1]
        bits = (least * len(items) + total * step) * unit
        return Point(bits, float(best[total]), tuple(zip(sides[::2], sides[1::2], strict=True)))

    lowest = np.minimum.accumulate(np.concatenate(([np.inf], best)))
    return [point(total) for total in range(len(best)) if best[total] < lowest[total]]


def one_size(kl: Table, sizes: Sequence[int], unit: float) -> list[Point]:
    """Every layer's keys and values together take the same bytes; only their split is a layer's own."""
    pairs = [(key, value) for key in range(len(sizes)) for value in range(len(sizes))]
    points = []
    for total in sorted({sizes[key] + sizes[value] for key, value in pairs}):
        fitting = [pair for pair in pairs if sizes[pair[0]] + sizes[pair[1]] == total]
        cost = np.stack([kl[:, 0, key] + kl[:, 1, value] for key, value in fitting], 1)
        chosen = tuple(fitting[pick] for pick in cost.argmin(1))
        points.append(Point(total * len(kl) * unit, float(cost.min(1).sum()), chosen))
    return _front(points)


def within_bits(front: Sequence[Point], bits: float) -> Point:
    """The best point of at most so many bits, which the narrowest has (`Request` sees to it)."""
    return [point for point in front if point.bits <= bits + TOLERANCE][-1]


def within_kl(front: Sequence[Point], kl: float) -> Point:
    """The narrowest point of at most this predicted KL; the widest if there is none."""
    return next((point for point in front if point.kl <= kl), front[-1])


def _front(points: Iterable[Point]) -> list[Point]:
    """By bits, without those that cost more bits for no less KL."""
    found: list[Point] = []
    for point in sorted(points, key=lambda one: (one.bits, one.kl)):
        if not found or point.kl < found[-1].kl:
            found.append(point)
    return found
