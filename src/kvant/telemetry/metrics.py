"""Every metric of Kvant, once.

Only what vLLM does not measure itself: its own `vllm:*` series stand beside these on /metrics.
Labels are from fixed sets; nothing a client sends becomes one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Info, generate_latest


class Metrics:
    """The metrics of one service, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._shown = [self.registry]
        self.build = Info(
            "kvant_build", "Versions, formats and identity of what runs.", registry=self.registry
        )
        self.ready = Gauge("kvant_ready", "1 while /ready answers 200.", registry=self.registry)
        self.inflight = Gauge(
            "kvant_inflight_requests", "API requests being answered.", registry=self.registry
        )
        self.rejected = Counter(
            "kvant_requests_rejected_total",
            "API requests refused or cut short by Kvant itself.",
            ["reason"],
            registry=self.registry,
        )
        self.bytes_per_token = Gauge(
            "kvant_cache_bytes_per_token",
            "Bytes that one token takes in the KV cache, all layers.",
            registry=self.registry,
        )
        self.effective_bits = Gauge(
            "kvant_effective_bits",
            "Stored bits per key or value element, scales and norms counted.",
            registry=self.registry,
        )

        self._seconds = Counter(
            "kvant_model_seconds_total",
            "Seconds of the first rank: whole steps, and encoding and attention, which are parts of them.",
            ["part"],
            registry=self.registry,
        )
        self._counted: dict[str, float] = {}

        self._drift = Gauge(
            "kvant_drift_ratio",
            "Errors of recent keys and values in units of the spread at calibration; 1 is as calibrated.",
            ["side"],
            registry=self.registry,
        )
        self._drift_alarm = Gauge(
            "kvant_drift_alarm",
            "1 while errors are outside the calibrated range; NaN where the recipe, or none, holds no range.",
            registry=self.registry,
        )
        self._drift_alarm.set(math.nan)
        self._drift_samples = Gauge(
            "kvant_drift_samples",
            "Samples of errors taken so far, on the rank that took fewest.",
            registry=self.registry,
        )

    def count_seconds(self, totals: dict[str, float]) -> None:
        """Bring the counters to what a worker says it has used so far."""
        for part, total in totals.items():
            self._seconds.labels(part).inc(total - self._counted.get(part, 0.0))
            self._counted[part] = total

    def show_drift(self, ranks: Sequence[dict[str, Any] | None]) -> None:
        """The largest of what workers say of their errors (`kvant.engine.watch.Watch.report`)."""
        known = [one for one in ranks if one is not None]
        if not known:
            return
        self._drift_alarm.set(any(one["alarm"] for one in known))
        self._drift_samples.set(min(one["samples"] for one in known))
        for side in sorted({name for one in known for name in one["drift"]}):
            self._drift.labels(side).set(max(one["drift"].get(side, 0.0) for one in known))

    def join(self, registry: CollectorRegistry) -> None:
        """Show this registry (vLLM's) after ours."""
        self._shown.append(registry)

    def render(self) -> bytes:
        """The Prometheus text format."""
        return b"".join(bytes(generate_latest(registry)) for registry in self._shown)
