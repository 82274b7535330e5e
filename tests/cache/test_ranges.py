"""Ranges of errors: fitted over positions, written into a calibration's facts, read strictly."""

from __future__ import annotations

import json

import numpy as np
import pytest

from kvant.cache.ranges import FACT, LEAST_SPREAD, ErrorRange, dump, load
from kvant.errors import CalibrationError

KNOTS = np.array([0.0, 100.0, 400.0])
FORMATS = ("trellis4", "int8")


def fitted(rng: np.random.Generator, spread: float = 0.5) -> ErrorRange:
    """Of 3 heads, whose keys lose more at later positions."""
    positions = rng.uniform(0, 400, 600)
    errors = rng.normal(-3, spread, (600, 2, 3))
    errors[:, 0] += positions[:, None] / 100
    return ErrorRange.fit(FORMATS, KNOTS, positions, errors)


def test_deviations_know_the_position_and_the_heads(rng: np.random.Generator) -> None:
    found = fitted(rng)
    np.testing.assert_allclose(found.mean[:, 0, 1], [-3, -2, 1], atol=0.15)
    np.testing.assert_allclose(found.spread, 0.5, atol=0.05)
    errors = np.array([[-0.5, -0.5], [-3.0, -2.5]])
    expected = [[0, 0], [0, 1]]
    np.testing.assert_allclose(found.deviations(errors, 250, range(1, 3)), expected, atol=0.3)
    beyond = found.deviations(errors, 10_000, range(1, 3))
    np.testing.assert_array_equal(beyond, found.deviations(errors, 400, range(1, 3)))


def test_an_even_calibration_makes_no_small_error_a_drift(rng: np.random.Generator) -> None:
    assert (fitted(rng, 0.001).spread == LEAST_SPREAD).all()


def test_facts_are_read_back(rng: np.random.Generator) -> None:
    made = {0: fitted(rng), 3: fitted(rng)}
    read = load({FACT: dump(made)})
    assert read.keys() == made.keys()
    assert read[3].formats == FORMATS
    for name in ("positions", "mean", "spread"):
        np.testing.assert_array_equal(getattr(read[3], name), getattr(made[3], name))
    assert load({"transform": "gm"}) == {}


@pytest.mark.parametrize(
    "change",
    [
        {"spread": [[0.0]]},
        {"mean": [1.0]},
        {"formats": ["int8"]},
        {"mean": None},
        {"positions": [float("nan")]},
    ],
)
def test_damaged_facts_are_refused(change: dict[str, object], rng: np.random.Generator) -> None:
    facts = json.loads(dump({0: fitted(rng)}))
    facts["0"] |= change
    with pytest.raises(CalibrationError, match="ranges of errors in a calibration cannot be read"):
        load({FACT: json.dumps(facts)})
