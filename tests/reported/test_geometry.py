"""Reported failures of kinds geometry and numeric-edge, and H5-20, on every path of this machine.

`tests/kernels` holds the kernels to the numpy reference in full; these are the reported cases by name.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from kvant.cache import CacheSpec, PageLayout
from kvant.errors import GeometryError
from kvant.formats import KEY_FORMATS, Format, Meta
from kvant.kernels import Batch, PagedAttention
from kvant.transforms import Rotation
from tests.formats.bounds import DISTORTION
from tests.kernels.native import HEAD_DIMS, ISAS, partner

KEYS = pytest.mark.parametrize("key", KEY_FORMATS.values(), ids=list(KEY_FORMATS))


def paged(key: Format, head_dim: int, isa: str, heads: int = 1) -> PagedAttention:
    layout = PageLayout(key, partner(key), head_dim, heads, 32)
    rotation = Rotation(3, head_dim)
    key_signs, value_signs = (
        rotation.table(0, range(heads), side) if layout_rotates(key) else None for side in ("key", "value")
    )
    return PagedAttention(layout, key_signs, value_signs, kernel=isa)


def layout_rotates(key: Format) -> bool:
    return key.needs_rotation or partner(key).needs_rotation


def values_back(attention: PagedAttention, value: np.ndarray) -> np.ndarray:
    """Values (tokens, heads, D) as attention returns them when each is attended to alone."""
    layout, count = attention.layout, len(value)
    pages = np.full((count, layout.page_bytes), 0xFF, np.uint8)  # one page for each token
    slots = np.arange(count, dtype=np.int64) * layout.block_size
    attention.encode(pages, np.zeros_like(value), value, slots)
    batch = Batch(
        np.arange(count, dtype=np.int32)[:, None],
        np.arange(count + 1, dtype=np.int32),
        np.ones(count, np.int32),
    )
    out = np.full_like(value, np.nan)
    workspace = np.zeros(attention.workspace_bytes(layout.num_kv_heads, count, 1, count), np.uint8)
    attention.attend(pages, np.zeros_like(value), out, batch, workspace, scale=1.0)
    return out


@ISAS
@KEYS
@pytest.mark.parametrize("head_dim", HEAD_DIMS)
def test_h5_11_tail_energy_survives_at_every_head_dim(
    isa: str, key: Format, head_dim: int, rng: np.random.Generator
) -> None:
    """A vector that is zero but in its last 16 coordinates, written over 0xFF."""
    value = np.zeros((64, 1, head_dim), np.float32)
    value[..., -16:] = rng.standard_normal((64, 1, 16))
    back = values_back(paged(key, head_dim, isa), value)
    distortion = DISTORTION[partner(key).name]
    energy = (back[..., -16:] * value[..., -16:]).sum() / (value**2).sum()
    # 16 terms rotate to something less normal than D do, so codebooks fit it less well: hence the 4.
    assert energy == pytest.approx(1, abs=4 * distortion + 1e-3)
    # An unrotated grid makes its error in all D coordinates, but the signal has energy in 16 of them.
    spread = 4 if layout_rotates(key) else head_dim / 16
    assert ((back - value) ** 2).sum() / (value**2).sum() < spread * distortion + 1e-4


@pytest.mark.parametrize("head_dim", [72, 100, 576])
@KEYS
def test_h5_11_what_cannot_be_stored_is_refused_with_alternatives(key: Format, head_dim: int) -> None:
    with pytest.raises(GeometryError, match=rf"head_dim {head_dim}: .* \(nearest: "):
        CacheSpec(key, partner(key), True).layout(head_dim, 1)


@ISAS
@pytest.mark.parametrize("group", [1, 3, 5, 6, 7, 8, 12, 14, 16, 24, 28])
def test_h5_12_every_query_head_reads_its_own_kv_head(isa: str, group: int) -> None:
    for head_dim, heads in itertools.product((64, 80), (1, 3)):
        attention = paged(KEY_FORMATS["int8"], head_dim, isa, heads)
        value = np.broadcast_to(
            np.arange(1, heads + 1, dtype=np.float32)[None, :, None], (40, heads, head_dim)
        ).copy()
        pages = np.full((2, attention.layout.page_bytes), 0xFF, np.uint8)
        attention.encode(pages, np.ones_like(value), value, np.arange(40, dtype=np.int64))
        query = np.ones((1, heads * group, head_dim), np.float32)
        out = np.zeros_like(query)
        batch = Batch(np.array([[0, 1]], np.int32), np.array([0, 1], np.int32), np.array([40], np.int32))
        workspace = np.zeros(attention.workspace_bytes(heads * group, 1, 40, 1), np.uint8)
        attention.attend(pages, query, out, batch, workspace, scale=0.1)
        expected = np.repeat(np.arange(1, heads + 1), group)[None, :, None]
        np.testing.assert_allclose(out, np.broadcast_to(expected, out.shape), rtol=0.01)


@ISAS
@KEYS
def test_h5_14_vectors_without_range(isa: str, key: Format, rng: np.random.Generator) -> None:
    """Zero, constants from 1e-8 to 100, one-hot, subnormal: alone and beside ordinary vectors."""
    attention = paged(key, 64, isa)
    constants = (1e-8, 1.0, 100.0, -100.0)
    odd = np.stack(
        [np.zeros(64), *(np.full(64, c) for c in constants), np.eye(64)[9] * 5, np.full(64, 1e-40)]
    ).astype(np.float32)[:, None]
    ordinary = rng.standard_normal((9, 1, 64)).astype(np.float32)
    alone, together = values_back(attention, odd), values_back(attention, np.concatenate((odd, ordinary)))
    assert np.isfinite(together).all()
    np.testing.assert_array_equal(together[: len(odd)], alone)
    np.testing.assert_array_equal(together[len(odd) :], values_back(attention, ordinary))
    assert not alone[0].any()
    bound = 4 * DISTORTION[partner(key).name] + 1e-4
    byte_scale = Meta("scale", 1) in partner(key).meta  # a byte stores no scale below 2^-16, by design
    for n, constant in enumerate(constants, 1):
        if not (byte_scale and abs(constant) < 2**-16):
            assert ((alone[n] - odd[n]) ** 2).mean() / constant**2 < bound, constant


@ISAS
def test_h5_20_error_falls_with_bits_and_no_width_is_served_as_another(
    isa: str, rng: np.random.Generator
) -> None:
    value = rng.standard_normal((400, 1, 64)).astype(np.float32)
    for names in (
        ("codebook2", "codebook3", "codebook4", "int8"),
        ("int4", "int8"),
        ("int4-asym", "int8-asym"),
    ):
        errors = [((values_back(paged(KEY_FORMATS[n], 64, isa), value) - value) ** 2).mean() for n in names]
        assert all(a > 2 * b for a, b in itertools.pairwise(errors)), dict(zip(names, errors, strict=True))
        assert all(e < DISTORTION[n] * 1.1 for n, e in zip(names, errors, strict=True))
