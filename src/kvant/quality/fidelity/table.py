"""The rows as a person reads them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kvant.quality.fidelity.row import Row

if TYPE_CHECKING:
    from kvant.quality.simulated.sensitivity import Sensitivity

HEAD = (
    f"{'preset':<34}{'path':<10}{'text':<12}{'bits':>6}{'effective':>10}{'KL':>9}{'s.e.':>8}{'p99':>8}"
    f"{'top-1':>7}{'perplexity':>19}"
)


def line(row: Row) -> str:
    name = f"{row.preset} vs {row.against}" if row.against else row.preset
    return (
        f"{name:<34}{row.path:<10}{row.text:<12}{row.bits:>6.3f}{row.effective_bits:>10.3f}"
        f"{row.kl:>9.5f}{row.kl_se:>8.5f}{row.kl_p99:>8.4f}{row.top1:>7.3f}"
        f"{row.dppl:>+10.2%} ± {row.dppl_se:.2%}"
    )


def sensitivity(preset: str, part: Sensitivity) -> str:
    """One side of one layer alone."""
    place = f"layer {part.layer:>3} {part.side}s"
    return f"{preset:<34}{place:<34}{part.text:<12}{'':<16}{part.kl:>9.5f}{part.kl_se:>8.5f}"


def buckets(row: Row) -> Iterator[str]:
    """By position, one line each; none where it was not asked for."""
    for bucket in row.by_position:
        place = f"positions {bucket['first']:>6} to {bucket['last']:<6}"
        yield f"{'':<34}{place:<38}{'':<16}{bucket['kl']:>9.5f}{bucket['kl_se']:>8.5f}"
