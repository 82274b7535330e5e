"""Python and C++ describe the same bytes, name what they disagree on, and rotate alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kvant.cache.layout import PageLayout
from kvant.formats import KEY_FORMATS, VALUE_FORMATS
from kvant.formats.codebook import TABLES
from kvant.formats.jl import sketch_signs, unbiasing
from kvant.formats.polar import CENTRES
from kvant.formats.trellis_tables import STEPS
from kvant.kernels import _native
from kvant.kernels.paged import native_layout
from kvant.transforms.rotation import Rotation, rotate, unrotate
from tests.kernels.native import HEAD_DIMS, ISAS, PAIRS

STEP = TABLES[4][1]
LEVELS = [float(x) for x in KEY_FORMATS["codebook4"].levels()]
RING_LEVELS = [float(x) for x in KEY_FORMATS["trellis3"].levels()]
SIDES: dict[str, dict[str, Any]] = {
    "int8": {"kind": 1, "bits": 8, "code_bytes": 1024, "meta_bytes": 2},
    "codebook4": {"kind": 2, "bits": 4, "levels": LEVELS, "code_bytes": 512, "meta_bytes": 2},
    "codebook4+jl": {
        "kind": 3, "bits": 4, "levels": LEVELS, "signs": sketch_signs(64).reshape(-1).tolist(),
        "weight": unbiasing(64), "code_bytes": 640, "meta_bytes": 4,
    },
    "trellis3": {"kind": 5, "bits": 3, "levels": RING_LEVELS, "step": STEPS[3], "byte_scale": True,
                 "code_bytes": 384, "meta_bytes": 1},
    "polar": {"kind": 4, "bits": 4, "levels": CENTRES.reshape(-1).tolist(),
              "code_bytes": 496, "meta_bytes": 0},
}  # fmt: skip
LAYOUT = {
    "head_dim": 64, "num_kv_heads": 2, "block_size": 32, "value_codes": 1024, "key_meta": 2048,
    "value_meta": 2080, "tile_bytes": 2112,
}  # fmt: skip


def side(name: str, **changes: Any) -> _native.Side:
    plain = {"asymmetric": False, "byte_scale": False, "levels": [], "signs": [], "weight": 0.0, "step": STEP}
    return _native.Side(**plain | SIDES[name] | changes)


@pytest.mark.parametrize("head_dim", range(16, 513, 16))
def test_every_pair_agrees(head_dim: int) -> None:
    for key, value in PAIRS:
        native_layout(PageLayout(key, value, head_dim, 3, 48))


@pytest.mark.parametrize("field", ["value_codes", "key_meta", "value_meta", "tile_bytes"])
def test_an_offset_they_disagree_on_is_named(field: str) -> None:
    _native.Layout(side("int8"), side("int8"), **LAYOUT)
    with pytest.raises(ValueError, match=rf"^{field}: Python says {LAYOUT[field] + 64}"):
        _native.Layout(side("int8"), side("int8"), **LAYOUT | {field: LAYOUT[field] + 64})


@pytest.mark.parametrize(
    ("field", "value"),
    [("head_dim", 72), ("head_dim", 0), ("head_dim", 528), ("num_kv_heads", 0), ("block_size", 24)],
)
def test_a_shape_the_kernels_cannot_serve_is_refused(field: str, value: int) -> None:
    with pytest.raises(ValueError, match=rf"^{field}: {value} "):
        _native.Layout(side("int8"), side("int8"), **LAYOUT | {field: value})


@pytest.mark.parametrize(
    ("name", "changes", "field"),
    [
        ("int8", {"kind": 6}, "kind"),
        ("int8", {"bits": 7}, "bits"),
        ("int8", {"bits": 4}, "code_bytes"),
        ("int8", {"asymmetric": True}, "meta_bytes"),
        ("int8", {"byte_scale": True}, "byte_scale"),
        ("int8", {"levels": [1.0]}, "levels"),
        ("codebook4", {"asymmetric": True}, "asymmetric"),
        ("codebook4", {"levels": LEVELS[:8]}, "levels"),
        ("codebook4", {"levels": LEVELS[::-1]}, "levels"),
        ("codebook4", {"step": 0.02}, "step"),
        ("codebook4", {"signs": [1.0] * 128}, "signs"),
        ("codebook4+jl", {"signs": [1.0] * 64}, "signs"),
        ("codebook4+jl", {"signs": [0.5] * 128}, "signs"),
        ("codebook4+jl", {"weight": 0.0}, "weight"),
        ("polar", {"levels": []}, "levels"),
        ("trellis3", {"bits": 4}, "code_bytes"),
        ("trellis3", {"bits": 5}, "bits"),
        ("trellis3", {"byte_scale": False}, "byte_scale"),
        ("trellis3", {"levels": RING_LEVELS[:16]}, "levels"),
        ("trellis3", {"levels": RING_LEVELS[:128] * 2}, "levels"),
        ("trellis3", {"step": 0.02}, "step"),
    ],
)
def test_a_side_that_does_not_fit_is_named(name: str, changes: dict[str, Any], field: str) -> None:
    with pytest.raises(ValueError, match=rf"^key\.{field}: "):
        _native.Layout(side(name, **changes), side("int8"), **LAYOUT)


def test_a_residual_value_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^value\.kind: .*keys only"):
        _native.Layout(side("int8"), side("codebook4+jl"), **LAYOUT)


def test_paths_are_listed_best_first_and_say_why_not() -> None:
    rows = _native.isas()
    assert [name for name, _, _ in rows] == [
        "amx",
        "avx512",
        "avx512-vnni",
        "avx-vnni",
        "avx2",
        "neon",
        "generic",
    ]
    assert rows[-1] == ("generic", True, "")
    assert all(available is (why == "") for _, available, why in rows)


def test_a_path_that_does_not_exist_is_refused() -> None:
    x = np.zeros(64, np.float32)
    known = "amx, avx512, avx512-vnni, avx-vnni, avx2, neon, generic"
    with pytest.raises(ValueError, match=f"'sse9' does not exist; known: {known}"):
        _native.rotate("sse9", x.ctypes.data, x.ctypes.data, 1, 64, x.ctypes.data, False)


@ISAS
@pytest.mark.parametrize("head_dim", [*HEAD_DIMS, 16, 48, 240, 496, 512])
def test_rotation_is_numpys(isa: str, head_dim: int, rng: np.random.Generator) -> None:
    x = rng.standard_normal((5, head_dim)).astype(np.float32)
    signs = Rotation(1, head_dim).signs(0, 0, "key")
    for inverse, numpy in ((False, rotate), (True, unrotate)):
        y = np.full_like(x, np.nan)
        _native.rotate(isa, x.ctypes.data, y.ctypes.data, len(x), head_dim, signs.ctypes.data, inverse)
        expected = numpy(x, signs)
        if head_dim & (head_dim - 1) == 0:
            assert np.array_equal(y, expected), "powers of two take the same steps as numpy, bit for bit"
        np.testing.assert_allclose(y, expected, atol=2e-6)
        back = unrotate if not inverse else rotate
        np.testing.assert_allclose(back(y, signs), x, atol=4e-6)


@ISAS
def test_rotation_refuses_a_head_it_cannot_mix(isa: str) -> None:
    x = np.zeros(72, np.float32)
    with pytest.raises(ValueError, match="head_dim: 72"):
        _native.rotate(isa, x.ctypes.data, x.ctypes.data, 1, 72, x.ctypes.data, False)


def test_value_formats_are_all_covered() -> None:
    assert {value.name for _, value in PAIRS} == set(VALUE_FORMATS)
    assert {key.name for key, _ in PAIRS} == set(KEY_FORMATS)
