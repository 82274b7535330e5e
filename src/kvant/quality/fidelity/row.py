"""One line of the result: a model, a configuration and a text."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from kvant.quality.score import Scores


@dataclass(frozen=True)
class Row:
    """Bits a stored value, before and with what stays in 16 bits, and how far predictions moved."""

    model: str
    preset: str
    text: str
    path: str
    bits: float
    effective_bits: float
    sinks: int
    window: int
    n: int
    kl: float
    kl_se: float
    kl_p99: float
    top1: float
    top1_se: float
    dppl: float
    dppl_se: float
    kernel: str = ""
    weights: str = ""
    against: str = ""
    """Model whose 16-bit cache is compared with, if not its own."""
    by_position: list[dict[str, float]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        found = asdict(self)
        return {
            name: value for name, value in found.items() if value or name not in ("by_position", "against")
        }


def made(scores: Scores, skip: int, by_position: bool, even: bool = False, **facts: Any) -> Row:
    """A row from the scores of every position from `skip` on (by position: of all there are)."""
    buckets = scores.by_position(even=even) if by_position else []
    return Row(**facts, **scores.since(skip).summary(), by_position=buckets)  # type: ignore[arg-type]
