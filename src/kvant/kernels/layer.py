"""The kernels of one layer of a spec: whoever serves one builds them here, so all give the same numbers."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from kvant.cache.layout import PageLayout
from kvant.cache.spec import CacheSpec
from kvant.errors import CalibrationError
from kvant.kernels.paged import PagedAttention
from kvant.transforms import Calibration, Rotation
from kvant.transforms.calibrated import file_digest


def attention_of(spec: CacheSpec, layout: PageLayout, layer: int, heads: range) -> PagedAttention:
    """What encodes and attends for `layer`, the owner of the pages, and these of its KV heads.

    `spec` is the layer's own (`CacheSpec.of_layer`); `CalibrationError` if its file is not the one it names.
    """
    rotation = Rotation(spec.seed, layout.head_dim)
    calibration = calibration_of(spec.calibration, spec.calibration_digest)
    values = calibration.values_of(layer, heads, layout.head_dim) if calibration else None
    return PagedAttention(
        layout,
        rotation.table(layer, heads, "key") if spec.rotate and not calibration else None,
        rotation.table(layer, heads, "value") if spec.rotate and not values else None,
        key_transform=calibration.of(layer, heads, layout.head_dim) if calibration else None,
        value_transform=values,
    )


@lru_cache(maxsize=4)
def calibration_of(path: str, digest: str) -> Calibration | None:
    """The calibration of a recipe, read once; `CalibrationError` if the file is not the one it names."""
    if not path:
        return None
    found = file_digest(Path(path))
    if found != digest:
        raise CalibrationError(f"{path}: SHA-256 is {found}, the recipe names {digest}: calibrate again")
    return Calibration.load(Path(path))
