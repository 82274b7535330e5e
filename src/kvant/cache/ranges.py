"""The range of errors that a cache made on the text it was calibrated on: what drift is measured against."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvant.errors import CalibrationError

FACT = "errors"
"""Its name among the facts of a calibration file, whose SHA-256 pins it."""
SIDES = ("key", "value")
LEAST_SPREAD = 0.15
"""An error that is a sixth larger costs nothing that could be seen, however even it was at calibration."""

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class ErrorRange:
    """Of one layer: log errors of blocks of tokens, keys and values.

    Rotary embedding turns keys with their position, so the mean (K, 2, KV heads) is one for each of the
    `positions` (K,), linear between them. `spread` (2, KV heads) is what is left around it; `formats` are
    those of keys and values that made the errors.
    """

    formats: tuple[str, str]
    positions: Numbers
    mean: Numbers
    spread: Numbers

    @classmethod
    def fit(cls, formats: tuple[str, str], knots: Numbers, positions: Numbers, errors: Numbers) -> ErrorRange:
        """Least squares over blocks at `positions` (blocks,) with `errors` (blocks, 2, KV heads)."""
        hats = np.stack([np.interp(positions, knots, one) for one in np.eye(len(knots))], 1)
        flat = errors.reshape(len(errors), -1)
        mean = np.linalg.lstsq(hats, flat, rcond=None)[0]
        spread = np.sqrt(((flat - hats @ mean) ** 2).sum(0) / (len(flat) - len(knots)))
        shape = errors.shape[1:]
        return cls(
            formats,
            knots,
            mean.reshape(-1, *shape).round(3),
            spread.reshape(shape).round(3).clip(min=LEAST_SPREAD),
        )

    def deviations(self, errors: Numbers, position: float, heads: range) -> Numbers:
        """Errors (2, heads) of these heads in units of the spread; mean square 1 as calibrated."""
        at = np.interp(position, self.positions, np.arange(len(self.positions)))
        low = int(at)
        high = min(low + 1, len(self.positions) - 1)
        mean = self.mean[low] + (at - low) * (self.mean[high] - self.mean[low])
        part = slice(heads.start, heads.stop)
        found: Numbers = (errors - mean[:, part]) / self.spread[:, part]
        return found


def dump(ranges: Mapping[int, ErrorRange]) -> str:
    """As the fact of a calibration file."""
    return json.dumps({str(layer): _plain(one) for layer, one in sorted(ranges.items())})


def load(facts: Mapping[str, str]) -> dict[int, ErrorRange]:
    """By layer; empty for a file made before there were ranges. `CalibrationError` if it is damaged."""
    if FACT not in facts:
        return {}
    try:
        return {int(layer): _range(one) for layer, one in json.loads(facts[FACT]).items()}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CalibrationError(f"the ranges of errors in a calibration cannot be read: {error!r}") from None


def _plain(one: ErrorRange) -> dict[str, Any]:
    numbers = {name: getattr(one, name).tolist() for name in ("positions", "mean", "spread")}
    return {"formats": one.formats, **numbers}


def _range(one: Mapping[str, Any]) -> ErrorRange:
    positions, mean, spread = (np.asarray(one[name], np.float64) for name in ("positions", "mean", "spread"))
    key, value = one["formats"]
    whole = mean.shape == (*positions.shape, *spread.shape) and positions.ndim == 1 and len(positions)
    finite = all(np.isfinite(numbers).all() for numbers in (positions, mean, spread))
    if not (whole and finite and len(spread) == len(SIDES) and spread.min() > 0):
        raise ValueError(f"positions {positions.shape}, mean {mean.shape}, spread {spread.shape}")
    return ErrorRange((str(key), str(value)), positions, mean, spread)
