"""Every metric of the gateway, once. Labels are names of arms and words from fixed sets."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

FIRST = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
TOKEN = (0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1, 2.5)


class GatewayMetrics:
    """The metrics of one gateway. Roles add their own to `registry`."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.ready = Gauge("kvant_gateway_ready", "1 while calls are taken.", registry=registry)
        self.requests = Counter(
            "kvant_gateway_requests_total",
            "Calls that an arm was asked for, by how they ended.",
            ["arm", "outcome"],
            registry=registry,
        )
        self.rejected = Counter(
            "kvant_gateway_requests_rejected_total",
            "Requests that were not let in.",
            ["reason"],
            registry=registry,
        )
        self.tokens = Counter(
            "kvant_gateway_tokens_total", "Tokens read and written.", ["arm", "kind"], registry=registry
        )
        self.first = Histogram(
            "kvant_gateway_first_token_seconds",
            "From admission to the first token of a stream.",
            ["arm"],
            registry=registry,
            buckets=FIRST,
        )
        self.gap = Histogram(
            "kvant_gateway_token_seconds",
            "From one token of a stream to the next.",
            ["arm"],
            registry=registry,
            buckets=TOKEN,
        )
        self.inflight = Gauge(
            "kvant_gateway_inflight_requests", "Calls at an arm.", ["arm"], registry=registry
        )
        self.queue = Gauge(
            "kvant_gateway_queue_requests", "Calls that wait.", ["arm", "priority"], registry=registry
        )
        self.slots = Gauge(
            "kvant_gateway_slots", "Calls that an arm takes at a time now.", ["arm"], registry=registry
        )
        self.up = Gauge(
            "kvant_gateway_replicas_up", "Replicas that can be reached.", ["arm"], registry=registry
        )
        self.kv = Gauge(
            "kvant_gateway_kv_usage_ratio",
            "KV memory in use at the arm's fullest replica.",
            ["arm"],
            registry=registry,
        )
        self.lost = Gauge(
            "kvant_gateway_audit_lost_rows", "Rows of the audit log that were not written.", registry=registry
        )

    def served(
        self,
        arm: str,
        outcome: str,
        first: float | None,
        gaps: Iterable[float],
        prompt_tokens: int,
        tokens: int,
    ) -> None:
        """One call that ended; times in seconds."""
        self.requests.labels(arm, outcome).inc()
        self.tokens.labels(arm, "prompt").inc(prompt_tokens)
        self.tokens.labels(arm, "answer").inc(tokens)
        if first is not None:
            self.first.labels(arm).observe(first)
        observe = self.gap.labels(arm).observe
        for gap in gaps:
            observe(gap)

    def render(self) -> bytes:
        """The Prometheus text format."""
        return bytes(generate_latest(self.registry))
