"""Does the error grow along a text? KL by position, pooled over texts, and its change from early to late."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvant.quality.fidelity.row import Row


@dataclass(frozen=True)
class Growth:
    """Of one configuration: buckets of equal width, and KL of the last quarter less that of the second.

    The first quarter is left out: there most of what a query sees is kept in 16 bits.
    """

    model: str
    preset: str
    n: int
    buckets: Sequence[dict[str, float]]
    early: float
    late: float
    growth: float
    growth_se: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def growth(rows: Sequence[Row]) -> Growth:
    """From rows of one configuration, one a text, with buckets at the same positions; errors over texts."""
    kl, top1 = (np.array([[b[name] for b in row.by_position] for row in rows]) for name in ("kl", "top1"))
    buckets = [
        {"first": b["first"], "last": b["last"], "kl": float(k.mean()), "kl_se": _se(k),
         "top1": float(t.mean()), "top1_se": _se(t)}
        for b, k, t in zip(rows[0].by_position, kl.T, top1.T, strict=True)
    ]  # fmt: skip
    quarter = kl.shape[1] // 4
    early, late = kl[:, quarter : 2 * quarter].mean(1), kl[:, -quarter:].mean(1)
    return Growth(
        rows[0].model, rows[0].preset, len(rows), buckets,
        float(early.mean()), float(late.mean()), float((late - early).mean()), _se(late - early),
    )  # fmt: skip


def _se(x: NDArray[np.float64]) -> float:
    return float(x.std(ddof=1) / len(x) ** 0.5) if len(x) > 1 else float("nan")
