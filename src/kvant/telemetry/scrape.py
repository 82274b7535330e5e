"""/metrics of a running service, read back: its own series and vLLM's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

Series = tuple[Mapping[str, str], float]


@dataclass(frozen=True)
class Scrape:
    """Samples by name, each with its labels."""

    samples: Mapping[str, tuple[Series, ...]]

    @classmethod
    def of(cls, text: str) -> Scrape:
        """From the Prometheus text format; `ValueError` where it is none."""
        found: dict[str, list[Series]] = {}
        families: Any = text_string_to_metric_families(text)
        for family in families:
            for sample in family.samples:
                found.setdefault(sample.name, []).append((sample.labels, sample.value))
        return cls({name: tuple(some) for name, some in found.items()})

    def total(self, name: str, **labels: str) -> float | None:
        """Sum of the series with these labels, over all others; None where there is none."""
        some = [
            value
            for given, value in self.samples.get(name, ())
            if all(given.get(label) == wanted for label, wanted in labels.items())
        ]
        return sum(some) if some else None

    def labels(self, name: str) -> Mapping[str, str]:
        """Of an info series; empty where it is not there."""
        return next((labels for labels, _ in self.samples.get(name, ())), {})

    def since(self, before: Scrape, name: str, **labels: str) -> float | None:
        """How far a counter went; None where it is not there. One that began later began at 0."""
        now = self.total(name, **labels)
        return None if now is None else now - (before.total(name, **labels) or 0.0)

    def mean(self, histogram: str) -> float | None:
        """Mean of what a histogram has seen; None where it has seen nothing."""
        count, total = self.total(f"{histogram}_count"), self.total(f"{histogram}_sum")
        return total / count if count and total is not None else None
