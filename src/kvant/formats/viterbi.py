"""The codes of a trellis: a Viterbi search in bytes, defined here to the bit for every implementation.

A state is the last 8 bits of a ring of codes, state(t) = (state(t-1) << b | code(t)) & 255. With J = 2^(8-b),
a state is x * J + j before a step (x the bits that leave it) and j * 2^b + c after it, so the search keeps
one cost for each j. Distances are bytes from a table over quantised values and costs are bytes whose sums
stop at 255: .5 % of distortion at most against floats, and four times as many lanes as 16-bit costs would
allow.

A ring must begin as it ends. Which j it begins with is taken from a search over `TURN` elements on either
side of the turn with both ends free; then the ring is searched with that j at both ends.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

STATES = 256
RENORM = 4
"""Every so many steps the smallest cost of so many steps before is taken off."""
CHUNK = 512
"""Vectors searched together: their costs stay in a cache."""


class Metric(NamedTuple):
    """distance = min(255, round((up * y - down * level)^2 / 2^shift)) of y / up in levels, |y| <= limit."""

    up: int
    down: int
    shift: int
    limit: int


METRICS = {2: Metric(2, 1, 5, 63), 3: Metric(1, 1, 4, 127), 4: Metric(1, 2, 4, 254)}
"""A mean distance is 4 at 2 bits, else 2, so that 255 is far; finer grids of y gain less than .4 %."""
TURN = {2: 32, 3: 24, 4: 16}
"""Elements on either side of the turn that are searched for the state there."""
ORDER = {
    2: (0, 1, 2, 3),
    3: (0, 2, 4, 6, 1, 3, 5, 7),
    4: (0, 4, 8, 12, 2, 6, 10, 14, 1, 5, 9, 13, 3, 7, 11, 15),
}
"""Of equal costs the first x in this order wins: the order in which 64-byte registers are halved."""

Codes = NDArray[np.uint8]


def distances(levels: NDArray[np.integer], bits: int) -> NDArray[np.uint8]:
    """Of every value -limit..limit (rows) to the 256 integer levels."""
    metric = METRICS[bits]
    values = np.arange(-metric.limit, metric.limit + 1)[:, None]
    apart = metric.up * values - metric.down * levels.astype(np.int64)
    squares = (apart * apart + (1 << metric.shift - 1)) >> metric.shift
    table: NDArray[np.uint8] = np.minimum(255, squares).astype(np.uint8)
    return table


def quantise(x: NDArray[np.float32], step: float, bits: int) -> NDArray[np.int64]:
    """Rows of `distances` for values in units of the scale; not-a-number is the largest."""
    metric = METRICS[bits]
    y = x * np.float32(metric.down / metric.up / step)
    y = np.where(y < metric.limit, y, np.float32(metric.limit))
    y = np.rint(np.where(y > -metric.limit, y, np.float32(-metric.limit)))
    rows: NDArray[np.int64] = y.astype(np.int64) + metric.limit
    return rows


def search(rows: NDArray[np.int64], table: NDArray[np.uint8], bits: int) -> Codes:
    """Codes (n, D) of vectors given as rows (n, D) of `distances`."""
    codes = [_search(rows[i : i + CHUNK], table, bits) for i in range(0, len(rows), CHUNK)]
    return np.concatenate(codes) if codes else np.empty(rows.shape, np.uint8)


def states(codes: NDArray[np.unsignedinteger], bits: int) -> Codes:
    """The state at every element of rings (n, D)."""
    state = np.zeros(codes.shape, np.uint8)
    for back in range(-(-8 // bits)):
        state |= np.roll(codes, back, axis=1).astype(np.uint8) << np.uint8(back * bits)
    return state


def _search(rows: NDArray[np.int64], table: NDArray[np.uint8], bits: int) -> Codes:
    n, size = rows.shape
    every, turn = np.arange(n), min(TURN[bits], size // 2)
    around = np.concatenate((rows[:, size - turn :], rows[:, :turn]), axis=1)
    back, cost = _forward(around, table, bits, np.zeros((STATES >> bits, n), np.uint8))
    state = cost.argmin(axis=0)
    for t in reversed(range(turn, 2 * turn)):
        state = back[t, state, every]
    cost = np.full((STATES >> bits, n), 255, np.uint8)
    cost[state, every] = 0
    back, _ = _forward(rows, table, bits, cost)
    codes = np.empty((n, size), np.uint8)
    for t in reversed(range(size)):
        codes[:, t] = state & (1 << bits) - 1
        state = back[t, state, every]
    return codes


def _forward(
    rows: NDArray[np.int64], table: NDArray[np.uint8], bits: int, cost: NDArray[np.uint8]
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """For each step the best j before it given the j after it, (steps, J, n); and the costs at the end."""
    n, steps = rows.shape
    fan, count = 1 << bits, STATES >> bits
    order, j = np.array(ORDER[bits], np.uint8), np.arange(count, dtype=np.uint8)[:, None]
    back = np.empty((steps, count, n), np.uint8)
    floor = np.zeros(n, np.uint8)
    for t in range(steps):
        if t % RENORM == 0:
            cost = cost - floor
            floor = cost.min(axis=0)
        distance = np.ascontiguousarray(table.take(rows[:, t], axis=0).T).reshape(count, fan, n)
        states = (distance + np.minimum(cost[:, None], 255 - distance)).reshape(fan, count, n)
        cost, rank = states[0], np.zeros((count, n), np.uint8)
        for place, x in enumerate(ORDER[bits][1:], 1):  # arithmetic on bytes: numpy chooses by masks slowly
            rank = np.maximum(rank, (states[x] < cost).view(np.uint8) * np.uint8(place))
            cost = np.minimum(states[x], cost)
        back[t] = order.take(rank) << np.uint8(8 - 2 * bits) | j >> np.uint8(bits)
    return back, cost
