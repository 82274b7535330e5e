"""How far one run moved a model's predictions from another's, position by position."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kvant.errors import EngineError

if TYPE_CHECKING:
    import torch

    Logits = Callable[[torch.Tensor], torch.Tensor]

CHUNK = 128
"""Positions at a time: their distributions are in memory together."""


@dataclass(frozen=True)
class Scores:
    """Of positions first, first + 1, ...: KL in nats, same top-1 token or not, log-loss in nats added."""

    first: int
    kl: NDArray[np.float64]
    same: NDArray[np.float64]
    loss: NDArray[np.float64]

    def since(self, skip: int) -> Scores:
        """Without the positions before `skip`."""
        drop = skip - self.first
        return Scores(skip, self.kl[drop:], self.same[drop:], self.loss[drop:])

    def summary(self) -> dict[str, float]:
        """Means, their standard errors, and the 99th percentile of KL."""
        mean = float(np.exp(self.loss.mean()))
        return {
            "n": len(self.kl),
            "kl": float(self.kl.mean()),
            "kl_se": standard_error(self.kl),
            "kl_p99": float(np.quantile(self.kl, 0.99)),
            "top1": float(self.same.mean()),
            "top1_se": standard_error(self.same),
            "dppl": mean - 1,
            "dppl_se": mean * standard_error(self.loss),
        }

    def by_position(self, buckets: int = 8, even: bool = False) -> list[dict[str, float]]:
        """Means in buckets of positions, each as much wider than the one before, or all as wide."""
        end = self.first + len(self.kl)
        if even:
            edges = np.linspace(self.first, end, buckets + 1).round().astype(int)
        else:
            edges = np.geomspace(max(self.first, 1), end, buckets + 1).round().astype(int)
        edges[0] = self.first
        return [
            {
                "first": int(a),
                "last": int(b) - 1,
                "kl": float(part.mean()),
                "kl_se": standard_error(part),
                "top1": float(self.same[a - self.first : b - self.first].mean()),
            }
            for a, b in pairwise(np.unique(edges))
            if len(part := self.kl[a - self.first : b - self.first])
        ]


def standard_error(x: NDArray[np.float64]) -> float:
    """Of the mean, from the means of sqrt(n) batches: neighbours are correlated, and n alone flatters."""
    batches = np.array([part.mean() for part in np.array_split(x, int(len(x) ** 0.5))])
    return float(batches.std(ddof=1) / len(batches) ** 0.5) if len(batches) > 1 else float("nan")


def compare(control: Any, states: Any, ids: list[int], logits: Logits, first: int) -> Scores:
    """Scores of hidden states (tokens, hidden) against the control's, where the next token is known.

    Logits are float32, their log-softmax float64: bf16 logits would add a noise of their own.
    `EngineError` if a state is not finite: such a run has no fidelity.
    """
    import torch

    broken = (~torch.isfinite(states).all(-1)).nonzero()[:, 0].tolist()
    if broken:
        raise EngineError(
            f"{len(broken)} of {len(states)} positions have hidden states that are not finite, "
            f"the first at {broken[0]}: this cache does not work here"
        )

    kls, same, losses = [], [], []
    for start in range(first, len(ids) - 1, CHUNK):
        at = slice(start, min(start + CHUNK, len(ids) - 1))
        p = torch.log_softmax(logits(control[at]).double(), -1)
        q = torch.log_softmax(logits(states[at]).double(), -1)
        target = torch.tensor(ids[at.start + 1 : at.stop + 1])[:, None]
        gap = p - q
        same.append(p.argmax(-1) == q.argmax(-1))
        losses.append(gap.gather(1, target)[:, 0])
        kls.append((p.exp_() * gap).sum(-1))
    return Scores(first, *(torch.cat(x).double().numpy() for x in (kls, same, losses)))
