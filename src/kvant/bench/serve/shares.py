"""What share of its steps a Kvant server spends on encoding and on attention, by its own counters."""

from __future__ import annotations

from collections.abc import Mapping

import httpx
from prometheus_client.parser import text_string_to_metric_families

SECONDS = "kvant_model_seconds_total"
"""As `kvant.telemetry.metrics` names it: part step, and its parts encode and attend."""

LAG = 6.0
"""Seconds after which what a server has done is in its counters: it asks its worker every five."""


def read(url: str) -> dict[str, float]:
    """Seconds so far by part; empty for a server that is not Kvant's."""
    text = httpx.get(f"{url}/metrics", timeout=60, trust_env=False).raise_for_status().text
    return {
        sample.labels["part"]: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == SECONDS
    }


def between(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float] | None:
    """Shares of the step's seconds between two readings; None where nothing was counted."""
    spent = {part: after[part] - before.get(part, 0.0) for part in after}
    step = spent.pop("step", 0.0)
    return {part: seconds / step for part, seconds in spent.items()} if step else None
