"""What was found, as a person reads it."""

from __future__ import annotations

from collections.abc import Iterator

from kvant.quality.generation.figures import NAMES, Written
from kvant.quality.generation.growth import Growth

HEAD = f"{'preset':<24}{'decoding':<10}{'parts at':>9}" + "".join(f"{name:>24}" for name in NAMES)


def line(row: Written) -> str:
    """Mean of each figure, and its difference to the control with the standard error."""
    cells = "".join(
        f"{one.mean:>8.3f} {one.delta:>+7.3f}±{one.se:<7.3f}" for one in (row.figures[name] for name in NAMES)
    )
    return f"{row.preset:<24}{row.decoding:<10}{row.parted:>9.0f} {cells}"


def lines(found: Growth) -> Iterator[str]:
    """KL and top-1 along the texts, then the change."""
    for b in found.buckets:
        yield (
            f"{found.preset:<24}positions {b['first']:>5} to {b['last']:<5} "
            f"KL {b['kl']:.5f} ± {b['kl_se']:.5f}  top-1 {b['top1']:.4f} ± {b['top1_se']:.4f}"
        )
    change = f"{found.growth:+.5f} ± {found.growth_se:.5f}"
    yield f"{found.preset:<24}last quarter - second: {change}, n = {found.n}"
