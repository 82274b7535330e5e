"""The shipped presets."""

from __future__ import annotations

from typing import get_args

import pytest

from kvant.cache import CacheSpec
from kvant.config.kv_cache import DEFAULT_PRESET, Preset
from kvant.errors import CalibrationError
from kvant.formats import KEY_FORMATS, VALUE_FORMATS, parse
from kvant.recipes import preset


def test_the_files_are_the_names_of_the_configuration() -> None:
    assert set(preset.names()) == set(get_args(Preset))
    assert DEFAULT_PRESET in preset.names()


@pytest.mark.parametrize("name", preset.names())
def test_every_preset_is_a_cache(name: str) -> None:
    chosen = preset.find(name)
    if chosen.key not in KEY_FORMATS or chosen.value not in VALUE_FORMATS:
        pytest.skip(f"{chosen.key}/{chosen.value} is not a format of this build")
    spec = chosen.spec(block_size=32)
    assert (spec.block_size, spec.sinks, spec.window) == (32, chosen.sinks, chosen.window)
    assert spec.rotate == (chosen.transform != "none")


def test_the_safe_preset_needs_nothing() -> None:
    safe = preset.find(preset.SAFE)
    assert not safe.calibrated
    assert safe.spec() == CacheSpec(parse("int8"), parse("int8", "value"))


def test_an_unknown_preset_is_refused_with_the_nearest() -> None:
    with pytest.raises(CalibrationError, match=r"no preset is named 'loseless'.*did you mean lossless"):
        preset.find("loseless")
