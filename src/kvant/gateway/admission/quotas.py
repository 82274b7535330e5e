"""The quotas of all clients: a call is admitted by its key's and by everybody's, or charged to neither."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from kvant.gateway import settings
from kvant.gateway.admission.quota import Limits, Quota, Short
from kvant.gateway.keys.key import Key
from kvant.http.body import Refused
from kvant.http.envelope import Refusal


@dataclass
class Grant:
    """One admitted call; `spent` is set to its tokens before it ends."""

    spent: float = 0.0


class Quotas:
    """Of one gateway. A key whose limits were changed begins anew."""

    def __init__(self, limits: settings.Limits) -> None:
        self._own = Limits(
            limits.key_requests_per_minute, limits.key_tokens_per_minute, limits.key_concurrency
        )
        everybody = Limits(limits.requests_per_minute, limits.tokens_per_minute, limits.concurrency)
        self._all = Quota(everybody, time.monotonic())
        self._keys: dict[str, Quota] = {}

    @property
    def used(self) -> int:
        """Calls inside the gateway."""
        return self._all.used

    @contextmanager
    def granted(self, key: Key | None, tokens: float) -> Iterator[Grant]:
        """Holds what one call may use; `Refused` with a truthful Retry-After where there is not enough.

        `tokens` is an estimate that is reserved; at the end what was spent is charged instead.
        """
        now = time.monotonic()
        quotas = self._quotas(key, now)
        short = [found for found in (one.short(tokens, now) for one in quotas) if found is not None]
        if short:
            raise Refused(_refusal(max(short, key=lambda one: one.seconds)))
        for one in quotas:
            one.take(tokens, now)
        grant = Grant()
        try:
            yield grant
        finally:
            now = time.monotonic()
            for one in quotas:
                one.give(tokens, grant.spent, now)

    def headers(self, key: Key | None) -> dict[str, str]:
        """What is left, in OpenAI's headers: of the key where it has limits of its own, else of all."""
        now = time.monotonic()
        quotas = reversed(self._quotas(key, now))
        return {name: text for one in quotas for name, text in one.headers(now).items()}

    def _quotas(self, key: Key | None, now: float) -> list[Quota]:
        return [self._all] if key is None else [self._of(key, now), self._all]

    def _of(self, key: Key, now: float) -> Quota:
        limits = Limits(
            key.requests_per_minute or self._own.requests,
            key.tokens_per_minute or self._own.tokens,
            key.concurrency or self._own.concurrency,
        )
        found = self._keys.get(key.id)
        if found is None or found.limits != limits:
            found = self._keys[key.id] = Quota(limits, now)
        return found


def _refusal(short: Short) -> Refusal:
    unit = "at a time" if short.what == "concurrency" else "a minute"
    what = "requests" if short.what == "concurrency" else short.what
    wait = max(1, math.ceil(short.seconds))
    message = f"the limit of {short.limit} {what} {unit} is reached; try again in {wait} s"
    return Refusal(429, f"limit_{short.what}", "RateLimitError", message, retry_after=wait)
