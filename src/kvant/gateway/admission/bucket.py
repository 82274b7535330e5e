"""A token bucket: so many a minute, all of a minute's at once if need be. Pure; time is an argument."""

from __future__ import annotations


class Bucket:
    """Full at first. What is taken beyond its level is a debt that later ones wait for."""

    def __init__(self, per_minute: int, now: float) -> None:
        self.per_minute = per_minute
        self._level = float(per_minute)
        self._at = now

    def level(self, now: float) -> float:
        """What could be taken now; negative where there is a debt."""
        grown = self._level + max(0.0, now - self._at) * self.per_minute / 60
        self._level, self._at = min(float(self.per_minute), grown), max(now, self._at)
        return self._level

    def wait(self, amount: float, now: float) -> float:
        """Seconds until so much is there; of more than it ever holds, until it is full."""
        lacking = min(amount, self.per_minute) - self.level(now)
        return max(0.0, lacking * 60 / self.per_minute)

    def take(self, amount: float, now: float) -> None:
        """Negative amounts are given back."""
        self._level = min(float(self.per_minute), self.level(now) - amount)

    def reset(self, now: float) -> float:
        """Seconds until it is full."""
        return max(0.0, (self.per_minute - self.level(now)) * 60 / self.per_minute)
