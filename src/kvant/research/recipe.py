"""What a cache is made of, from what the caller has: a spec, its JSON object, or the folder of a recipe."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from kvant.cache.spec import CacheSpec


def spec_of(given: CacheSpec | Mapping[str, Any] | str | os.PathLike[str]) -> CacheSpec:
    """The spec; `ConfigError` and `CalibrationError` say what is wrong with it."""
    if isinstance(given, CacheSpec):
        return given
    if isinstance(given, Mapping):
        return CacheSpec.from_json(dict(given))
    from kvant.recipes import load

    spec: CacheSpec = load(os.fspath(given)).spec
    return spec
