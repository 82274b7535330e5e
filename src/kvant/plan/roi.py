"""What a denser cache is worth: instances, energy and money, pay-back, and what the answer hangs on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from kvant.plan.assumptions import Range

SECONDS_PER_HOUR = 3600


@dataclass(frozen=True)
class Service:
    """What is served: `requests` at the same time at the peak, each taking `seconds`."""

    requests: float
    seconds: float
    before: int
    """Requests that an instance serves at once now."""
    after: int
    """And with the other cache."""
    devices: int
    """In an instance."""
    price: float
    """Of a device and hour."""
    watts: float
    """Of a device."""


@dataclass(frozen=True)
class Return:
    """A month, where nothing else is said; money in the currency of the prices."""

    instances_before: int
    instances_after: int
    kwh_saved: float
    saved: float
    """On instances, and on energy where that is billed."""
    operation: float
    quality: float
    once: float
    """To introduce it."""
    year: float
    """Twelve months' net saving, less what is paid once."""

    @property
    def net(self) -> float:
        return self.saved - self.operation - self.quality

    @property
    def payback(self) -> float:
        """Months until what was paid once is earned; infinite where it never is."""
        return self.once / self.net if self.net > 0 else math.inf


@dataclass(frozen=True)
class Swing:
    """A year's result with one assumption at its ends and all others at their base."""

    name: str
    at: Range
    low: float
    high: float

    @property
    def width(self) -> float:
        return abs(self.high - self.low)


def value(service: Service, at: Mapping[str, float]) -> Return:
    """The return with every assumption at one value."""
    demand = service.requests * at["demand_factor"]
    after = service.before + (service.after - service.before) * at["gain_realised"]
    before_count, after_count = _instances(demand, service.before), _instances(demand, after)
    fewer = (before_count - after_count) * service.devices
    hours = at["hours_per_month"]
    kwh = fewer * hours * service.watts * at["power_share"] * at["pue"] / 1000
    saved = (
        fewer * hours * service.price * at["price_factor"] + kwh * at["energy_price"] * at["energy_billed"]
    )
    answers = demand / service.seconds * hours * SECONDS_PER_HOUR
    quality = answers * at["worse_share"] * at["worse_cost"]
    operation = at["operation_days"] * at["day_rate"]
    once = at["engineering_days"] * at["day_rate"]
    net = saved - operation - quality
    return Return(before_count, after_count, kwh, saved, operation, quality, once, 12 * net - once)


def base(assumed: Mapping[str, Range]) -> dict[str, float]:
    return {name: one.base for name, one in assumed.items()}


def swings(service: Service, assumed: Mapping[str, Range]) -> list[Swing]:
    """What each assumption moves on its own, the most first: the rows of a tornado."""
    middle = base(assumed)
    found = [
        Swing(
            name,
            one,
            value(service, middle | {name: one.low}).year,
            value(service, middle | {name: one.high}).year,
        )
        for name, one in assumed.items()
    ]
    return sorted(found, key=lambda one: (-one.width, one.name))


def extremes(service: Service, assumed: Mapping[str, Range]) -> tuple[Return, Return, Return]:
    """Every assumption at its worse end, at its base, at its better end."""
    worse, better = base(assumed), base(assumed)
    for one in swings(service, assumed):
        ends = (one.at.low, one.at.high)
        worse[one.name], better[one.name] = ends if one.low <= one.high else ends[::-1]
    return value(service, worse), value(service, base(assumed)), value(service, better)


def _instances(requests: float, each: float) -> int:
    return math.ceil(requests / each - 1e-9) if requests > 0 else 0
