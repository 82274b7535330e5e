"""Bets against a hypothesis: their capital is evidence that may be looked at after every request.

If a hypothesis is true, the capital of a gambler who bets against it is a supermartingale that starts at 1,
so the chance that it ever reaches 1/a is at most a, however often it is looked at (Ville 1939). Betting on
the mean of bounded values is after Waudby-Smith and Ramdas (Estimating means of bounded random variables by
betting, JRSS B 2023); on two streams after Turner, Ly and Grünwald (Generic E-variables for exact sequential
k-sample tests, 2021). Time-uniform inference at large: Howard, Ramdas, McAuliffe, Sekhon, Annals of
Statistics 2021.

A gambler splits the capital over a fixed grid of stakes and never shifts it. So the log-capital of each stake
is a plain sum over requests, and gateways may add their parts in any order; the mean over the grid is the
capital.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

STAKES = (0.05, 0.15, 0.4, 0.8)
"""Shares of the largest stake that cannot ruin."""
RAREST, COMMONEST = 1e-3, 0.5


def above(x: float, limit: float) -> list[float]:
    """Against "the mean is at most `limit`", of values in [0, 1]: log-growth of each stake.

    Assumes of each value only that its mean, given all before it, is at most `limit` if the hypothesis is
    true.
    """
    return [math.log1p(stake * (x - limit) / limit) for stake in STAKES]


def below(x: float, limit: float) -> list[float]:
    """Against "the mean is at least `limit`"."""
    return [math.log1p(stake * (limit - x) / (1 - limit)) for stake in STAKES]


@dataclass
class Block:
    """Yes-or-no results of both arms in one stretch of time: how many, and how many were bad."""

    candidates: int = 0
    candidates_bad: int = 0
    baselines: int = 0
    baselines_bad: int = 0

    def add(self, candidate: bool, bad: bool) -> None:
        if candidate:
            self.candidates, self.candidates_bad = self.candidates + 1, self.candidates_bad + bad
        else:
            self.baselines, self.baselines_bad = self.baselines + 1, self.baselines_bad + bad

    @property
    def complete(self) -> bool:
        """Both arms are in it. This may depend on who answers when, never on how it went."""
        return self.candidates > 0 and self.baselines > 0


def more(block: Block, rate: float, excess: float) -> list[float]:
    """Against "the candidate is bad at most `excess` more often than the baseline".

    Each candidate's result is multiplied in as 1 + a (y - u), each baseline's as 1 - b (y - v), with u - v =
    excess and a per candidate as b per baseline, so that by the inequality of the means the block's expected
    growth is at most 1 whatever both true rates are. v is `rate`, a guess of the baseline's rate made before
    the block: a wrong one costs speed, not validity. Assumes that within a block results do not depend on
    each other, and that both arms get requests of the same kind (assignment is random), at the same load.
    """
    v = min(max(rate, RAREST), COMMONEST)
    u = v + excess
    share = block.candidates / block.baselines
    most = min(1 / u, 1 / (share * (1 - v)))
    return [_growth(block, u, v, stake * most, stake * most * share) for stake in STAKES]


def fewer(block: Block, rate: float, excess: float) -> list[float]:
    """Against "the candidate is bad at least `excess` more often than the baseline"; as `more`."""
    v = min(max(rate, RAREST), COMMONEST)
    u = v + excess
    share = block.candidates / block.baselines
    most = min(1 / (1 - u), 1 / (share * v))
    return [_growth(block, u, v, -stake * most, -stake * most * share) for stake in STAKES]


def _growth(block: Block, u: float, v: float, a: float, b: float) -> float:
    return (
        block.candidates_bad * math.log1p(a * (1 - u))
        + (block.candidates - block.candidates_bad) * math.log1p(-a * u)
        + block.baselines_bad * math.log1p(-b * (1 - v))
        + (block.baselines - block.baselines_bad) * math.log1p(b * v)
    )


def capital(growths: Sequence[float]) -> float:
    """Log of the mean capital of all stakes."""
    return log_sum(growths) - math.log(len(growths))


def log_sum(logs: Sequence[float]) -> float:
    """Log of a sum given by the logs of its parts."""
    largest = max(logs)
    return largest + math.log(math.fsum(math.exp(one - largest) for one in logs))
