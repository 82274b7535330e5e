"""What was measured in the last quarter of an hour, for plots: bounded, and still there after a reload."""

from __future__ import annotations

import math
import random
import time
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from kvant.rollout.evidence import Comparison, Serving

SECONDS = 10.0
"""Of one slot."""
SLOTS = 90
SAMPLE = 64
"""Values of a series kept in one slot, drawn evenly from all of them."""


@dataclass
class Values:
    """Of one series in one slot."""

    count: int = 0
    sum: float = 0.0
    sample: list[float] = field(default_factory=list)

    def add(self, value: float) -> None:
        self.count, self.sum = self.count + 1, self.sum + value
        if len(self.sample) < SAMPLE:
            self.sample.append(value)
        elif (place := random.randrange(self.count)) < SAMPLE:
            self.sample[place] = value

    def point(self) -> list[float]:
        """Mean, median and 90th percentile, to four digits."""
        ordered = sorted(self.sample)
        at = (self.sum / self.count, ordered[len(ordered) // 2], ordered[len(ordered) * 9 // 10])
        return [float(f"{value:.4g}") for value in at]


class Recent:
    """Learns all that the rollout does. To be called in one thread."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._slots: deque[tuple[int, defaultdict[str, Values]]] = deque(maxlen=SLOTS)

    def observe(self, seen: Serving | Comparison) -> None:
        if isinstance(seen, Comparison):
            self._add("divergence", seen.divergence)
            self._add("disagreement", None if seen.agreement is None else 1 - seen.agreement)
        elif not seen.shadow:
            self._add(f"first_token.{seen.arm}", seen.first_token)
            self._add(f"per_token.{seen.arm}", seen.per_token)

    def series(self) -> dict[str, list[list[float]]]:
        """By name, oldest first: seconds ago that the slot began, then mean, median, 90th percentile."""
        now, found = self._now(), defaultdict(list)
        for number, values in self._slots:
            ago = now - number * SECONDS
            if ago <= SECONDS * SLOTS:
                for name, one in values.items():
                    found[name].append([round(ago, 1), *one.point()])
        return dict(found)

    def _add(self, name: str, value: float | None) -> None:
        # What is no number is evidence for the controller, but has no place on a plot.
        if value is None or not math.isfinite(value):
            return
        number = int(self._now() // SECONDS)
        if not self._slots or self._slots[-1][0] != number:
            self._slots.append((number, defaultdict(Values)))
        self._slots[-1][1][name].add(value)
