"""The verdict on made-up deviations: no engine, no clock."""

from __future__ import annotations

import numpy as np
import pytest

from kvant.engine.drift import KEPT, LEAST, Drift

LAYERS, HEADS = 8, 2


def feed(
    drift: Drift, rng: np.random.Generator, count: int, shift: float = 0.0, layers: int = LAYERS
) -> list:
    """Deviations of calibrated text, keys of the first `layers` layers moved; the turns of the alarm."""
    turns = []
    for n in range(count):
        deviations = rng.normal(size=(2, HEADS))
        deviations[0] += shift * (n % LAYERS < layers)
        turns.append(drift.add(n % LAYERS, deviations))
    return [turn for turn in turns if turn]


def test_text_as_calibrated_is_1_and_no_alarm(rng: np.random.Generator) -> None:
    drift = Drift()
    assert feed(drift, rng, 20 * KEPT) == []
    assert drift.samples == 20 * KEPT
    assert len(drift.squares) == len(drift.layers) == KEPT
    assert drift.by_side() == pytest.approx({"key": 1, "value": 1}, abs=0.15)


@pytest.mark.parametrize(("shift", "layers"), [(3, LAYERS), (-3, LAYERS), (10, 1)])
def test_the_alarm_begins_once_and_ends_once(shift: float, layers: int, rng: np.random.Generator) -> None:
    drift = Drift()
    assert feed(drift, rng, KEPT) == []
    assert feed(drift, rng, 4 * KEPT, shift, layers) == ["begins"]
    assert drift.worst()[1] == "key"
    assert drift.worst()[0] < layers
    assert drift.by_side()["key"] > drift.by_side()["value"] + 0.5
    assert feed(drift, rng, 2 * KEPT) == ["ends"]


def test_nothing_is_said_of_few_samples_nor_of_one_odd_block(rng: np.random.Generator) -> None:
    drift = Drift()
    assert feed(drift, rng, LEAST - 1, 50) == []
    assert drift.by_side() == {}
    drift = Drift()
    feed(drift, rng, KEPT)
    assert drift.add(0, np.full((2, HEADS), 1e9)) is None
    assert not drift.alarm


def test_drift_between_the_bounds_does_not_flap(rng: np.random.Generator) -> None:
    drift = Drift()
    turns = feed(drift, rng, 40 * KEPT, 1.8)  # a drift of about 1.62
    assert turns in ([], ["begins"])
