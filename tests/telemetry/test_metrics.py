"""What /metrics says of drift, in the text Prometheus reads."""

from __future__ import annotations

from typing import Any

from kvant.telemetry.metrics import Metrics


def shown(*ranks: dict[str, Any] | None) -> list[str]:
    metrics = Metrics()
    metrics.show_drift(ranks)
    return [line for line in metrics.render().decode().splitlines() if line.startswith("kvant_drift")]


def test_the_rank_that_drifted_most_is_shown() -> None:
    first = {"samples": 70, "alarm": False, "drift": {"key": 1.25, "value": 0.5}}
    second = {"samples": 64, "alarm": True, "drift": {"key": 1.0, "value": 2.0}}
    assert shown(first, second) == [
        'kvant_drift_ratio{side="key"} 1.25',
        'kvant_drift_ratio{side="value"} 2.0',
        "kvant_drift_alarm 1.0",
        "kvant_drift_samples 64.0",
    ]


def test_too_few_samples_show_no_drift_and_a_recipe_without_ranges_no_alarm() -> None:
    assert shown({"samples": 3, "alarm": False, "drift": {}}) == [
        "kvant_drift_alarm 0.0",
        "kvant_drift_samples 3.0",
    ]
    assert shown(None, None) == ["kvant_drift_alarm NaN", "kvant_drift_samples 0.0"]
