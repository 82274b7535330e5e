"""Two arms' most likely tokens of one position: how far apart they are, and whether they agree."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeVar

LEAST = 1e-6
"""Probability that is left to all tokens not listed, at least: sums of rounded numbers reach one."""

Token = TypeVar("Token", int, str)


def divergence(p: Mapping[Token, float], q: Mapping[Token, float]) -> float:
    """KL(p || q) in nats over the tokens both list, those only p lists as one, and all others as one.

    Lumping can only lower it (data processing inequality), and of what q gives the tokens only p lists the
    nearest that its list allows is taken: so this is a lower bound of the KL over the vocabulary, and a close
    one where the lists hold nearly all probability.
    """
    common = p.keys() & q.keys()
    rest = [max(LEAST, 1 - sum(math.exp(one[token]) for token in common)) for one in (p, q)]
    listed = sum(math.exp(p[token]) * (p[token] - q[token]) for token in common)
    return max(0.0, listed + _apart(p, q, *rest))


def _apart(p: Mapping[Token, float], q: Mapping[Token, float], rest_p: float, rest_q: float) -> float:
    """What the tokens that not both list add: those of p alone in one lump, which q can give only so much."""
    alone = p.keys() - q.keys()
    mine = min(rest_p, sum(math.exp(p[token]) for token in alone))
    theirs = min(rest_q * mine / rest_p, len(alone) * math.exp(unlisted(q)))
    lumps = ((mine, theirs), (rest_p - mine, rest_q - theirs))
    return sum(a * math.log(a / max(b, LEAST)) for a, b in lumps if a > 0)


def unlisted(likely: Mapping[Token, float]) -> float:
    """The most that a token has which is not listed: as much as the least listed, or all that is left."""
    left = 1 - sum(math.exp(one) for one in likely.values())
    return min(math.log(max(LEAST, left)), min(likely.values(), default=0.0))


def first(likely: Mapping[Token, float]) -> Token:
    """The most likely token."""
    return max(likely, key=lambda token: likely[token])
