"""Two arms' most likely tokens of one position: how far apart they are, and whether they agree."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeVar

LEAST = 1e-6
"""Probability that is left to all tokens not listed, at least: sums of rounded numbers reach one."""

Token = TypeVar("Token", int, str)


def divergence(p: Mapping[Token, float], q: Mapping[Token, float]) -> float:
    """KL(p || q) in nats over the tokens both list, and all others as one.

    Lumping can only lower it (data processing inequality), so this is a lower bound of the KL over the
    vocabulary, and a close one where the lists hold nearly all probability.
    """
    common = p.keys() & q.keys()
    rest = [max(LEAST, 1 - sum(math.exp(one[token]) for token in common)) for one in (p, q)]
    listed = sum(math.exp(p[token]) * (p[token] - q[token]) for token in common)
    return max(0.0, listed + rest[0] * math.log(rest[0] / rest[1]))


def first(likely: Mapping[Token, float]) -> Token:
    """The most likely token."""
    return max(likely, key=lambda token: likely[token])
