"""What a user calls a configuration, and the spec behind it.

lossless                       a preset, calibrated for the model once if it needs it
int8/int8                      formats of keys and values, rotated only where they need it
int4/int4+rotate               rotated in any case
codebook4/codebook3+gm+s4+w64  calibrated keys (--calibration FILE), 4 sinks, the newest 64 in 16 bits
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from kvant import recipes
from kvant.cache.spec import CacheSpec
from kvant.errors import CalibrationError, ConfigError
from kvant.formats import parse
from kvant.models import manifest
from kvant.recipes import child, place
from kvant.recipes import preset as presets
from kvant.recipes.calibrate import Job
from kvant.transforms import Calibration
from kvant.transforms.calibrated import file_digest

OPTION = re.compile(r"rotate|gm|s(?P<sinks>\d+)|w(?P<window>\d+)")


def check(name: str, calibration: Path | None) -> None:
    """Refuse a wrong name before any model is loaded."""
    if "/" in name:
        raw(name, calibration)
    else:
        presets.find(name).spec()


def spec_of(name: str, folder: Path | str, calibration: Path | None) -> CacheSpec:
    """The spec of a raw name or of a preset on this model, which is calibrated now if it was not yet."""
    if "/" in name:
        return raw(name, calibration)
    wanted = presets.find(name)
    if not wanted.calibrated:
        return wanted.spec()
    digest = _digest(folder, f"preset {name}")
    made = place.folder(digest, name)
    if not made.exists():
        made = child.run(Job(str(folder), digest, Path(folder).absolute().name, name))
    return of_recipe(made, folder)


def of_recipe(recipe: Path, folder: Path | str) -> CacheSpec:
    """The spec of a recipe's folder; `CalibrationError` if it was made for another model."""
    found = recipes.load(recipe)
    found.check_model(_digest(folder, f"recipe {recipe}"))
    return found.spec


def raw(name: str, calibration: Path | None = None) -> CacheSpec:
    """The spec of KEY/VALUE with its options; `ConfigError` names what is wrong in it."""
    key, _, rest = name.partition("/")
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
    Calibration.load(path)  # says now what is wrong with it
    return replace(spec, calibration=str(path), calibration_digest=file_digest(path))


def _digest(folder: Path | str, what: str) -> str:
    if not isinstance(folder, Path):
        raise CalibrationError(f"{what}: is pinned to a model's files, and {folder!r} is a hub id")
    return manifest.verify(folder, trust=True)
