"""Presets: named choices of formats that know no model, each a YAML file in `presets/`.

To add one: write the file, and its name into `kvant.config.kv_cache.Preset`; a test ties the two.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import Field

from kvant.cache.spec import CacheSpec
from kvant.config.section import Section, Text
from kvant.config.words import near
from kvant.errors import CalibrationError
from kvant.recipes import strict

FOLDER = Path(__file__).with_name("presets")
SAFE = "int8"
"""What is served where a calibrated preset cannot be: it needs nothing to be known of the model."""

Transform = Literal["gm", "diag", "rotation", "none"]
CALIBRATED = ("gm", "diag")


class Preset(Section):
    """Formats of keys and values, how keys are transformed, and how many tokens stay in 16 bits."""

    summary: Text
    key: Text
    value: Text
    transform: Transform
    sinks: int = Field(ge=0)
    window: int = Field(ge=0)

    @property
    def calibrated(self) -> bool:
        """Whether the key transform has to be learnt from the model."""
        return self.transform in CALIBRATED

    def spec(self, **changes: object) -> CacheSpec:
        """What the engine is told, but for the calibration; `changes` are fields of `CacheSpec.from_json`."""
        rotate = self.transform != "none"
        fields = {"key": self.key, "value": self.value, "sinks": self.sinks, "window": self.window}
        return CacheSpec.from_json({**fields, "rotate": rotate, **changes})


@cache
def find(name: str) -> Preset:
    """The preset of that name; `CalibrationError` lists the names there are."""
    if name not in names():
        close = near(name, names())
        hint = f"; did you mean {close}?" if close else ""
        raise CalibrationError(f"no preset is named {name!r}; there are {', '.join(names())}{hint}")
    return strict.load(FOLDER / f"{name}.yaml", Preset)[0]


@cache
def names() -> tuple[str, ...]:
    """All presets."""
    return tuple(sorted(file.stem for file in FOLDER.glob("*.yaml")))
