"""Limits of one client, or of all together: requests and tokens a minute, requests at a time."""

from __future__ import annotations

from dataclasses import dataclass

from kvant.gateway.admission.bucket import Bucket


@dataclass(frozen=True)
class Limits:
    """None is no limit."""

    requests: int | None = None
    tokens: int | None = None
    concurrency: int | None = None


@dataclass(frozen=True)
class Short:
    """What there is not enough of (requests, tokens, concurrency), and in how many seconds there will be."""

    what: str
    limit: int
    seconds: float


class Quota:
    """What of the limits is used. Asking (`short`) takes nothing; `take` and `give` are one admitted call."""

    def __init__(self, limits: Limits, now: float) -> None:
        self.limits = limits
        self.used = 0
        self._buckets = {
            what: Bucket(limit, now)
            for what, limit in (("requests", limits.requests), ("tokens", limits.tokens))
            if limit is not None
        }

    def short(self, tokens: float, now: float) -> Short | None:
        """What stands against one more call of so many tokens; None where nothing does."""
        limit = self.limits.concurrency
        if limit is not None and self.used >= limit:
            return Short("concurrency", limit, 1.0)
        for what, bucket in self._buckets.items():
            seconds = bucket.wait(tokens if what == "tokens" else 1, now)
            if seconds > 0:
                return Short(what, bucket.per_minute, seconds)
        return None

    def take(self, tokens: float, now: float) -> None:
        self.used += 1
        for what, bucket in self._buckets.items():
            bucket.take(self._reserved(tokens) if what == "tokens" else 1, now)

    def give(self, reserved: float, spent: float, now: float) -> None:
        """The call has ended: what was reserved beyond what it spent comes back."""
        self.used -= 1
        if "tokens" in self._buckets:
            self._buckets["tokens"].take(spent - self._reserved(reserved), now)

    def _reserved(self, tokens: float) -> float:
        """No more than a full bucket: what a client claims that it may take must keep nobody out for long."""
        return min(tokens, self._buckets["tokens"].per_minute)

    def headers(self, now: float) -> dict[str, str]:
        """OpenAI's x-ratelimit headers."""
        found = {}
        for what, bucket in self._buckets.items():
            found[f"x-ratelimit-limit-{what}"] = str(bucket.per_minute)
            found[f"x-ratelimit-remaining-{what}"] = str(max(0, int(bucket.level(now))))
            found[f"x-ratelimit-reset-{what}"] = f"{bucket.reset(now):.3f}s"
        return found
