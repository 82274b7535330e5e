"""Encode: the codes of the numpy reference, in the right bytes, whatever was there and in any order."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from kvant.cache.layout import PageLayout
from kvant.formats import KEY_FORMATS, TILE, VALUE_FORMATS, Encoded, Format
from kvant.formats.base import Meta, Vectors
from kvant.formats.codebook import Codebook
from kvant.formats.integer import Integer
from kvant.formats.trellis import Trellis
from kvant.kernels import PagedAttention, _native
from kvant.kernels.paged import native_layout
from kvant.transforms.rotation import Rotation, rotate
from tests.kernels.native import FORMATS, HEAD_DIMS, ISAS, attention, decode_tile, partner

FLIPS = 1e-3
"""Share of codes that float rounding at a decision threshold may move to the neighbouring level."""


def stored(layout: PageLayout, tile: NDArray[np.uint8], side: str) -> Encoded:
    """Codes and metadata of a tile, as numpy unpacks them."""
    fmt, codes, meta = layout._side(side)  # type: ignore[arg-type]
    region = np.ascontiguousarray(tile[codes : codes + fmt.code_bytes(layout.head_dim)])
    numbers: dict[str, NDArray[np.unsignedinteger]] = {}
    for array in fmt.meta:
        raw = np.ascontiguousarray(tile[meta : meta + TILE * array.bytes])
        numbers[array.name] = raw.view(f"<u{array.bytes}")
        meta += TILE * array.bytes
    return Encoded(fmt.unpack(region, layout.head_dim, side), numbers)  # type: ignore[arg-type]


@lru_cache(maxsize=512)
def numpys(
    fmt: Format, side: str, rotated: bool, head_dim: int
) -> tuple[Vectors, list[Encoded], list[Vectors]]:
    """16 tokens of two heads, and for each head what numpy stores and reads back."""
    rng = np.random.default_rng([head_dim, side == "key"])
    x = rng.standard_normal((TILE, 2, head_dim)).astype(np.float32)
    y = rotate(x, Rotation(11, head_dim).table(3, range(2), side)) if rotated else x  # type: ignore[arg-type]
    encoded = [fmt.encode(np.ascontiguousarray(y[:, head])) for head in range(2)]
    return x, encoded, [fmt.decode(e, head_dim) for e in encoded]


def check_codes(fmt: Format, got: Encoded, expected: Encoded, exact: bool) -> None:
    a, b = got.codes.astype(int), expected.codes.astype(int)
    assert set(got.meta) == set(expected.meta)
    if exact:
        assert np.array_equal(a, b)
        for name in got.meta:
            assert np.array_equal(got.meta[name], expected.meta[name]), name
        return
    # Across odd blocks numpy multiplies matrices in an order of its own; polar takes arc tangents.
    assert np.sum(a != b) <= max(1, FLIPS * a.size)
    for name in got.meta:
        steps = np.abs(got.meta[name].astype(int) - expected.meta[name].astype(int))
        assert steps.max() <= 1, name
    if isinstance(fmt, (Codebook, Integer)):
        assert np.abs(a - b).max() <= 1, "a code is not even the neighbour of the right one"


@ISAS
@FORMATS
@pytest.mark.parametrize("head_dim", HEAD_DIMS)
def test_codes_and_vectors_are_numpys(isa: str, key: Format, value: Format, head_dim: int) -> None:
    kernels, signs = attention(isa, key, value, head_dim)
    layout = kernels.layout
    pages = np.full((3, layout.page_bytes), 0xFF, np.uint8)
    rotated = signs[0] is not None
    expected = {side: numpys(fmt, side, rotated, head_dim) for side, fmt in (("key", key), ("value", value))}
    kernels.encode(pages, expected["key"][0], expected["value"][0], np.arange(48, 64))
    for side, fmt in (("key", key), ("value", value)):
        exact = fmt.name != "polar" and (not rotated or head_dim & (head_dim - 1) == 0)
        _, encoded, decoded = expected[side]
        for head in range(2):
            tile = layout.tile(pages, 1, head, 16)
            got = stored(layout, tile, side)
            check_codes(fmt, got, encoded[head], exact)
            vectors = decoded[head] if exact else fmt.decode(got, head_dim)
            np.testing.assert_allclose(decode_tile(isa, layout, tile, side), vectors, atol=2e-6)
            assert np.all(layout.tile(pages, 1, head, 0) == 0xFF)
    assert np.all(pages[::2] == 0xFF)


@ISAS
@FORMATS
@pytest.mark.parametrize("head_dim", [64, 80])
def test_one_token_overwrites_its_slot_and_nothing_else(
    isa: str, key: Format, value: Format, head_dim: int, rng: np.random.Generator
) -> None:
    """The slot's bytes must not depend on what they were: zeros, 0xFF, or an older token (H5-11)."""
    kernels, _ = attention(isa, key, value, head_dim, 1)
    layout = kernels.layout
    before = rng.integers(0, 256, (1, layout.page_bytes), np.uint8)
    x = rng.standard_normal((2, 1, 1, head_dim)).astype(np.float32)
    for slot in (5, 31):
        pages = [before.copy(), np.zeros_like(before), np.full_like(before, 0xFF)]
        for page in pages:
            kernels.encode(page, x[0], x[1], np.array([slot]))
        other = 16 if slot < 16 else 0
        assert np.array_equal(layout.tile(pages[0], 0, 0, other), layout.tile(before, 0, 0, other))
        mine, rest = slot % 16, np.arange(16) != slot % 16
        for side in ("key", "value"):
            tiles = [stored(layout, layout.tile(page, 0, 0, slot), side) for page in (before, *pages)]
            assert np.array_equal(tiles[1].codes[rest], tiles[0].codes[rest])
            for tile in tiles[2:]:
                assert np.array_equal(tile.codes[mine], tiles[1].codes[mine])
            for name, numbers in tiles[1].meta.items():
                assert np.array_equal(numbers[rest], tiles[0].meta[name][rest])
                assert all(tile.meta[name][mine] == numbers[mine] for tile in tiles[2:])


@ISAS
@FORMATS
def test_any_order_of_slots_gives_the_same_pages(
    isa: str, key: Format, value: Format, rng: np.random.Generator
) -> None:
    """Tokens of one tile share bytes; threads must never write one tile together."""
    heads = 3
    kernels, _ = attention(isa, key, value, 80, heads)
    n = 256
    x = rng.standard_normal((2, n, heads, 80)).astype(np.float32)
    slots = rng.permutation(n)
    expected = np.zeros((n // 32, kernels.layout.page_bytes), np.uint8)
    for i in range(n):  # one token at a time
        kernels.encode(expected, x[0, i : i + 1], x[1, i : i + 1], slots[i : i + 1])
    for _ in range(2):
        pages = np.full_like(expected, 0xFF)
        order = rng.permutation(n)
        kernels.encode(pages, x[0, order], x[1, order], slots[order])
        assert np.array_equal(pages, expected)


@ISAS
def test_the_last_of_two_tokens_for_one_slot_wins(isa: str, rng: np.random.Generator) -> None:
    kernels, _ = attention(isa, KEY_FORMATS["codebook3"], VALUE_FORMATS["codebook3"])
    x = rng.standard_normal((2, 200, 2, 64)).astype(np.float32)
    slots = rng.integers(0, 64, 200)
    pages = np.zeros((2, kernels.layout.page_bytes), np.uint8)
    kernels.encode(pages, x[0], x[1], slots)
    expected = np.zeros_like(pages)
    last = np.array([np.flatnonzero(slots == s)[-1] for s in np.unique(slots)])
    kernels.encode(expected, x[0, last], x[1, last], slots[last])
    assert np.array_equal(pages, expected)


@ISAS
def test_slot_minus_one_is_skipped_and_a_wild_slot_refused(isa: str, rng: np.random.Generator) -> None:
    kernels, _ = attention(isa, KEY_FORMATS["int8"], VALUE_FORMATS["int8"])
    x = rng.standard_normal((4, 2, 64)).astype(np.float32)
    pages = np.full((2, kernels.layout.page_bytes), 0xFF, np.uint8)
    kernels.encode(pages, x, x, np.full(4, -1))
    assert np.all(pages == 0xFF)
    for wild in (64, -2, 1 << 40):
        with pytest.raises(ValueError, match=rf"token 3 goes to slot {wild}, there are slots 0 to 63"):
            kernels.encode(pages, x, x, np.array([0, 1, 2, wild]))
        assert np.all(pages == 0xFF), "nothing may be written before all slots are checked"
    kernels.encode(pages, x[:0], x[:0], np.zeros(0, np.int64))


@ISAS
def test_sixteen_bit_inputs_and_strides(isa: str, rng: np.random.Generator) -> None:
    """bf16 and fp16 keys are the same numbers in float32; rows may lie apart (a slice of qkv)."""
    kernels, _ = attention(isa, KEY_FORMATS["codebook4"], VALUE_FORMATS["int4"])
    layout = kernels.layout
    wide = rng.standard_normal((20, 7, 64)).astype(np.float16)
    special = np.array([0, -0.0, 6e-8, -3e-6, 6.1e-5, 65504, -65504, 1, 0.1], np.float16)
    wide.reshape(-1)[: special.size] = special
    slots = np.arange(20)
    for dtype in ("float16", "bfloat16"):
        raw = (
            wide if dtype == "float16" else (wide.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        )
        exact = (
            wide.astype(np.float32) if dtype == "float16" else (raw.astype(np.uint32) << 16).view(np.float32)
        )
        expected = np.zeros((1, layout.page_bytes), np.uint8)
        kernels.encode(expected, exact[:, 2:4], exact[:, 4:6], slots)
        pages = np.zeros_like(expected)
        signs = [s.ctypes.data for s in kernels._signs if s is not None]
        _native.encode(
            isa, native_layout(layout), pages.ctypes.data, 1, layout.page_bytes,
            raw[:, 2:4].ctypes.data, raw[:, 4:6].ctypes.data, 7 * 64, 7 * 64,
            2 if dtype == "float16" else 1, slots.ctypes.data, 20, *signs,
        )  # fmt: skip
        assert np.array_equal(pages, expected), dtype


def constants(head_dim: int) -> NDArray[np.float32]:
    """Vectors that have hurt other codecs (H5-14)."""
    rows = [np.full(head_dim, c) for c in (0.0, 1e-8, 1.0, 100.0, -100.0, 1e-40, 1e15)]
    rows += [np.eye(head_dim)[0] * 7, np.eye(head_dim)[-1] * -0.01]
    tail = np.zeros(head_dim)
    tail[-16:] = 1.0
    return np.array([*rows, tail], np.float32)


@ISAS
@FORMATS
@pytest.mark.parametrize("head_dim", [64, 80])
def test_edge_vectors(isa: str, key: Format, value: Format, head_dim: int, rng: np.random.Generator) -> None:
    """Finite; zero is zero; a constant keeps its size; neighbours get the codes they get alone (H5-14)."""
    kernels, _ = attention(isa, key, value, head_dim, 1)
    layout = kernels.layout
    edge = constants(head_dim)
    n = len(edge)
    mixed = rng.standard_normal((2 * n, 1, head_dim)).astype(np.float32)
    mixed[::2, 0] = edge
    pages = np.full((1, layout.page_bytes), 0xFF, np.uint8)
    kernels.encode(pages, mixed, mixed, np.arange(2 * n))
    alone = np.full_like(pages, 0xFF)
    for i in rng.permutation(2 * n):
        kernels.encode(alone, mixed[i : i + 1], mixed[i : i + 1], np.array([i]))
    assert np.array_equal(pages, alone)
    for side, fmt in (("key", key), ("value", value)):
        tiles = [decode_tile(isa, layout, layout.tile(pages, 0, 0, t), side) for t in (0, 16)]
        decoded = np.concatenate(tiles)[: 2 * n : 2]
        assert np.all(np.isfinite(decoded)), fmt
        assert np.all(decoded[0] == 0), fmt
        size, expected = (np.linalg.norm(x.astype(np.float64), axis=-1) for x in (decoded, edge))
        # A byte of scale reaches from 2^-16 to 2^16; the two-bit levels nearest to 1 rms are .45 and 1.51.
        normal = (expected > 1e-4) & (expected < (1e4 if fmt.meta[:1] == (Meta("scale", 1),) else 1e30))
        assert np.all(np.abs(size[normal] / expected[normal] - 1) < 0.55), fmt


@ISAS
@pytest.mark.parametrize(
    "fmt", [f for f in KEY_FORMATS.values() if isinstance(f, (Codebook, Integer, Trellis))], ids=str
)
@pytest.mark.parametrize("head_dim", [64, 80, 256])
def test_every_code_value_round_trips(isa: str, fmt: Format, head_dim: int) -> None:
    """A kernel written for one width must not be served another (H5-20): every code at every position."""
    layout = PageLayout(fmt, fmt, head_dim, 1, 16)
    count = 1 << fmt.bits
    tokens = np.arange(max(count, 4 * TILE))
    # Neighbours differ by 37, which no power of two divides, so each sees every code as well.
    codes = ((tokens[:, None] + 37 * np.arange(head_dim)) % count).astype(np.uint8)
    meta = {a.name: np.full(TILE, 0x3F80 if a.bytes == 2 else 0, f"<u{a.bytes}") for a in fmt.meta}  # 1.0
    numbers = np.concatenate([np.ascontiguousarray(m).view(np.uint8) for m in meta.values()])
    assert all(len(np.unique(column)) == count for column in codes.T)
    for rows in codes.reshape(-1, TILE, head_dim):
        expected = fmt.decode(Encoded(rows, meta), head_dim)
        tile = np.concatenate((fmt.pack(rows, "key"), fmt.pack(rows, "value"), numbers, numbers))
        for side in ("key", "value"):
            assert np.array_equal(decode_tile(isa, layout, tile, side), expected)


@ISAS
def test_error_falls_strictly_with_bits(isa: str, rng: np.random.Generator) -> None:
    x = rng.standard_normal((512, 1, 128)).astype(np.float32)
    for family in (
        "codebook2 codebook3 codebook4 int8 bf16",
        "int4 int8",
        "int4-asym int8-asym",
        "trellis2 trellis3 trellis4",
    ):
        errors = []
        for name in family.split():
            fmt = KEY_FORMATS[name]
            kernels = PagedAttention(PageLayout(fmt, partner(fmt), 128, 1, 512), kernel=isa)
            page = np.zeros((1, kernels.layout.page_bytes), np.uint8)
            kernels.encode(page, x, x, np.arange(512))
            for side in ("key", "value"):
                tiles = [kernels.layout.tile(page, 0, 0, t) for t in range(0, 512, 16)]
                decoded = np.concatenate([decode_tile(isa, kernels.layout, t, side) for t in tiles])
                errors.append((side, np.mean((decoded - x[:, 0]) ** 2)))
        for side in ("key", "value"):
            series = [error for s, error in errors if s == side]
            assert all(a > b for a, b in pairwise(series)), (family, side, series)
