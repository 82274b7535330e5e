"""Peers whose codes are formats of ours: int8 and int4 per token and head, TurboQuant, the founding design.

TurboQuant (Zandieh et al. 2025) is a random rotation, Lloyd-Max levels and a norm for each vector, with or
without a 1-bit QJL residual on keys; the founding documents' keys are its 3 + 1 bits.
"""

from __future__ import annotations

from kvant.cache.spec import CacheSpec
from kvant.quality.simulated.moments import Moments
from kvant.quality.simulated.scheme import Scheme, Shape
from kvant.quality.simulated.spec import scheme_of


def ours(key: str, value: str, name: str, shape: Shape, moments: list[Moments]) -> Scheme:
    return scheme_of(CacheSpec.from_json({"key": key, "value": value, "rotate": True}), shape, name)
