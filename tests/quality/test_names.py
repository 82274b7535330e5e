"""What a configuration is called, and what is said of a wrong name."""

from __future__ import annotations

import pytest

from kvant.errors import CalibrationError, ConfigError, FormatError
from kvant.quality.fidelity.names import check, of_recipe, raw, spec_of
from kvant.transforms.calibrated import file_digest
from tests.recipes import made


def test_a_raw_name_says_everything(tmp_path) -> None:
    plain = raw("int8/int4")
    assert (plain.name, plain.rotate, plain.sinks, plain.window) == ("int8/int4", False, 0, 0)
    assert raw("int8/int8+rotate").rotate
    assert raw("codebook3+jl/codebook4").name == "codebook3+jl/codebook4"
    near = raw("codebook4/codebook2+s4+w64")
    assert (near.rotate, near.sinks, near.window) == (True, 4, 64)
    file = tmp_path / "c.safetensors"
    made.transforms().save(file)
    calibrated = raw("int4/int4+gm", file)
    assert calibrated.rotate
    assert (calibrated.calibration, calibrated.calibration_digest) == (str(file), file_digest(file))


def test_a_damaged_calibration_is_refused_before_any_model_is_loaded(tmp_path) -> None:
    (tmp_path / "c").write_bytes(b"x")
    with pytest.raises(CalibrationError, match="cannot be read"):
        check("int8/int8+gm", tmp_path / "c")


@pytest.mark.parametrize(
    ("name", "error", "says"),
    [
        ("lossles", CalibrationError, "no preset is named 'lossles'; there are .*did you mean lossless"),
        ("int8/int8+w", ConfigError, r"\+w is none of \+rotate, \+gm, \+s4 \(sinks\), \+w64 \(window\)"),
        ("int8/codebok4", FormatError, "did you mean 'codebook4'"),
        ("int8/codebook3+jl", ConfigError, r"\+jl is none of"),
        ("int8/int8+w9999", ConfigError, "window 9999: must be from 0 to 1024"),
        ("int8/int8+gm", ConfigError, r"\+gm needs --calibration FILE"),
    ],
)
def test_a_wrong_name_says_what_is_wrong(name: str, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        check(name, None)


def test_a_preset_that_needs_no_calibration_is_the_same_on_every_model() -> None:
    assert spec_of("founding", "owner/name", None) == raw("codebook3+jl/codebook4")


def test_a_calibrated_preset_is_pinned_to_files() -> None:
    with pytest.raises(CalibrationError, match="'owner/name' is a hub id"):
        spec_of("lossless", "owner/name", None)


def test_a_recipe_of_another_model_is_refused(tmp_path) -> None:
    """H5-21's rule holds for what is measured, too."""
    model, recipe = made.model(tmp_path / "model"), made.recipe(tmp_path / "recipe")
    with pytest.raises(CalibrationError, match="made for another model"):
        of_recipe(recipe, model)
