"""What a configuration is called, and what is said of a wrong name."""

from __future__ import annotations

import pytest

from kvant.errors import ConfigError, FormatError
from kvant.quality.fidelity.names import spec_of
from kvant.transforms.calibrated import file_digest


def test_a_raw_name_says_everything(tmp_path) -> None:
    plain = spec_of("int8/int4")
    assert (plain.name, plain.rotate, plain.sinks, plain.window) == ("int8/int4", False, 0, 0)
    assert spec_of("int8/int8+rotate").rotate
    assert spec_of("codebook3+jl/codebook4").name == "codebook3+jl/codebook4"
    near = spec_of("codebook4/codebook2+s4+w64")
    assert (near.rotate, near.sinks, near.window) == (True, 4, 64)
    file = tmp_path / "c.safetensors"
    file.write_bytes(b"x")
    calibrated = spec_of("int4/int4+gm", file)
    assert calibrated.rotate
    assert (calibrated.calibration, calibrated.calibration_digest) == (str(file), file_digest(file))


@pytest.mark.parametrize(
    ("name", "error", "says"),
    [
        ("lossles", ConfigError, "preset 'lossles' does not exist; there are"),
        ("int8/int8+w", ConfigError, r"\+w is none of \+rotate, \+gm, \+s4 \(sinks\), \+w64 \(window\)"),
        ("int8/codebok4", FormatError, "did you mean 'codebook4'"),
        ("int8/codebook3+jl", ConfigError, r"\+jl is none of"),
        ("int8/int8+w9999", ConfigError, "window 9999: must be from 0 to 1024"),
        ("int8/int8+gm", ConfigError, r"\+gm needs --calibration FILE"),
    ],
)
def test_a_wrong_name_says_what_is_wrong(name: str, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        spec_of(name)
