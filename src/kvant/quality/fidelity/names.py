"""What a user calls a configuration, and the spec behind it.

int8/int8                      formats of keys and values, rotated only where they need it
int4/int4+rotate               rotated in any case
codebook4/codebook3+gm+s4+w64  calibrated keys (--calibration FILE), 4 sinks, the newest 64 in 16 bits
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from kvant.cache.spec import CacheSpec
from kvant.errors import ConfigError
from kvant.formats import parse
from kvant.transforms.calibrated import file_digest

UNCALIBRATED = {"int8": "int8/int8+rotate", "founding": "codebook3+jl/codebook4"}
"""Presets that need nothing of the model."""

OPTION = re.compile(r"rotate|gm|s(?P<sinks>\d+)|w(?P<window>\d+)")


def spec_of(name: str, calibration: Path | None = None) -> CacheSpec:
    """The spec of a preset or of a raw name; `ConfigError` names what is wrong in it."""
    raw = UNCALIBRATED.get(name, name)
    key, slash, rest = raw.partition("/")
    if not slash:
        raise ConfigError(
            f"preset {name!r} does not exist; there are {', '.join(UNCALIBRATED)}, "
            "and names such as codebook4/codebook4+w64"
        )
    value, *options = rest.split("+")
    found = [OPTION.fullmatch(option) for option in options]
    wrong = [option for option, match in zip(options, found, strict=True) if match is None]
    if wrong:
        raise ConfigError(f"preset {name}: +{wrong[0]} is none of +rotate, +gm, +s4 (sinks), +w64 (window)")
    given = (pair for match in found if match for pair in match.groupdict().items())
    numbers: dict[str, Any] = {kind: int(count) for kind, count in given if count}
    gm = "gm" in options
    formats = parse(key), parse(value, "value")
    rotate = gm or "rotate" in options or any(one.needs_rotation for one in formats)
    spec = replace(CacheSpec(*formats, rotate=rotate), **numbers)
    if not gm:
        return spec
    if calibration is None:
        raise ConfigError(f"preset {name}: +gm needs --calibration FILE, the calibrated key transforms")
    path = calibration.resolve()
    return replace(spec, calibration=str(path), calibration_digest=file_digest(path))
