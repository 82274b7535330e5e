"""So much a minute, and no more: a bucket that fills at a steady rate. Seconds are arguments."""

from __future__ import annotations


class Budget:
    def __init__(self, per_minute: float) -> None:
        self._most = self._left = float(per_minute)
        self._at: float | None = None

    def take(self, amount: float, now: float) -> bool:
        """Whether there was as much; then it is taken."""
        if self._at is not None:
            self._left = min(self._most, self._left + max(0.0, now - self._at) * self._most / 60)
        self._at = now
        if amount > self._left:
            return False
        self._left -= amount
        return True

    def settle(self, amount: float) -> None:
        """Gives back what was not used, or takes what was used beyond; that may leave a debt."""
        self._left = min(self._most, self._left + amount)
