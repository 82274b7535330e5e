"""Every metric of a rollout, once: read from its status when they are asked for.

Labels are words from fixed sets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

PHASES = ("idle", "shadow", "canary", "full", "rolled_back")
BREAKER = ("closed", "half-open", "open")


class RolloutCollector(Collector):
    """`status` as of `kvant.rollout.status`; `breaker` the phase of the candidate's; `drift` the patrol's."""

    def __init__(
        self,
        status: Callable[[], dict[str, Any]],
        breaker: Callable[[str], str],
        drift: Callable[[], Mapping[str, float]],
    ) -> None:
        self._status, self._breaker, self._drift = status, breaker, drift

    def collect(self) -> Iterator[Metric]:
        found = self._status()
        phase = _family("phase", "1 for the phase that the rollout is in.", ["phase"])
        for name in PHASES:
            phase.add_metric([name], float(found["phase"] == name))
        yield phase
        yield _one("weight", "Share of the traffic that the candidate answers.", found["weight"])
        yield _one("paused", "1 while a person holds the rollout.", found["paused"])
        yield _one(
            "trouble",
            "1 while it holds: its state cannot be kept, or the candidate is not up.",
            bool(found["trouble"]),
        )
        counts = _family("requests", "Requests that are evidence, since the start.", ["kind"])
        for name, count in found["counts"].items():
            counts.add_metric([name.replace(".", "_")], count["total"])
        yield counts
        yield from _quantities(found["quantities"])
        breaker, now = (
            _family("breaker", "1 for what the candidate's breaker is.", ["state"]),
            self._breaker("candidate"),
        )
        for name in BREAKER:
            breaker.add_metric([name], float(now == name))
        yield breaker
        drift = _family("drift_ratio", "Present level to that at promotion, of what is known.", ["quantity"])
        for name, ratio in self._drift().items():
            drift.add_metric([name], ratio)
        yield drift


def _quantities(quantities: Mapping[str, Any]) -> Iterator[Metric]:
    level = _family("quantity", "Mean of what was seen since the start.", ["quantity", "arm"])
    value = _family("e_value", "Evidence that the candidate is worse, or good.", ["quantity", "direction"])
    shown = _family("shown", "1 where that evidence suffices.", ["quantity", "direction"])
    for name, one in quantities.items():
        for arm in ("baseline", "candidate"):
            if one[arm] is not None:
                level.add_metric([name, arm], one[arm])
        for direction in ("worse", "good"):
            value.add_metric([name, direction], one[direction]["e_value"])
            shown.add_metric([name, direction], float(one[direction]["shown"]))
    yield from (level, value, shown)


def _family(name: str, text: str, labels: list[str]) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"kvant_rollout_{name}", text, labels=labels)


def _one(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"kvant_rollout_{name}", text, value=float(value))
