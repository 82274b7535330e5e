"""Has the level of a stream of numbers risen over what it was? A sliding mean with hysteresis; pure."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Drift:
    """`level` is what is usual, None until it is known: then the first full window is taken for it.

    `least` is the smallest level that is worth a multiple: below it all is noise.
    """

    window: int
    raised_at: float
    cleared_at: float
    least: float
    level: float | None = None
    values: tuple[float, ...] = ()
    raised: bool = False

    @property
    def ratio(self) -> float | None:
        """Present mean to the usual level; None until a window is full."""
        if self.level is None or len(self.values) < self.window:
            return None
        return sum(self.values) / len(self.values) / max(self.level, self.least)

    def after(self, value: float) -> Drift:
        """With one more value."""
        found = replace(self, values=(*self.values, value)[-self.window :])
        if found.level is None and len(found.values) == found.window:
            return replace(found, level=sum(found.values) / found.window)
        ratio = found.ratio
        if ratio is None:
            return found
        return replace(found, raised=ratio > (self.cleared_at if self.raised else self.raised_at))
