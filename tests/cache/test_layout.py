"""Pages: exact sizes, exact places, the numpy reference reads back what it wrote."""

from __future__ import annotations

import numpy as np
import pytest

from kvant.cache import PageLayout
from kvant.errors import GeometryError
from kvant.formats import KEY_FORMATS, TILE, VALUE_FORMATS, parse

PAIRS = [(k, k if k in VALUE_FORMATS else "codebook4") for k in KEY_FORMATS] + [
    ("codebook3", "codebook2-byte")
]


def layout(key: str, value: str, head_dim: int = 64, heads: int = 3, block: int = 32) -> PageLayout:
    return PageLayout(parse(key), parse(value, "value"), head_dim, heads, block)


@pytest.mark.parametrize(
    ("key", "value", "size"),
    [("bf16", "bf16", 256), ("int8", "int8", 132), ("int4", "int4", 68), ("codebook4", "codebook4", 68),
     ("codebook3", "codebook3", 52), ("codebook2", "codebook2", 36), ("codebook2-byte", "codebook2-byte", 34),
     ("codebook3+jl", "codebook4", 70)],
)  # fmt: skip
def test_bytes_per_token_at_head_dim_64(key: str, value: str, size: int) -> None:
    assert layout(key, value).bytes_per_token_head == size


def test_strongest_mode_is_at_least_six_times_smaller_than_16_bit() -> None:
    assert 256 / layout("codebook2-byte", "codebook2-byte").bytes_per_token_head > 7
    assert 256 / layout("codebook3-byte", "codebook2-byte").bytes_per_token_head > 6


@pytest.mark.parametrize("head_dim", [64, 80, 96, 128, 256])
@pytest.mark.parametrize(("key", "value"), PAIRS)
def test_page_is_a_whole_number_of_bytes_per_token(key: str, value: str, head_dim: int) -> None:
    page = layout(key, value, head_dim)
    assert page.page_bytes == 3 * 32 * page.bytes_per_token_head
    assert page.effective_bits == page.bytes_per_token_head * 4 / head_dim


@pytest.mark.parametrize(("key", "value"), PAIRS)
def test_write_then_read_and_neighbours_untouched(key: str, value: str, rng: np.random.Generator) -> None:
    page = layout(key, value)
    tile = np.full(page.tile_bytes, 0xFF, np.uint8)
    vectors = rng.standard_normal((TILE, 64)).astype(np.float32)
    for side in ("key", "value"):
        for slot in rng.permutation(TILE):
            page.write(tile, side, int(slot), vectors[slot])
        fmt = page.key if side == "key" else page.value
        np.testing.assert_array_equal(page.read(tile, side), fmt.decode(fmt.encode(vectors), 64))
        before = tile.copy()
        page.write(tile, side, 5, vectors[5])
        np.testing.assert_array_equal(tile, before)


def test_tiles_of_a_page_do_not_overlap() -> None:
    page = layout("codebook3+jl", "int8-asym", block=48)
    pages = np.zeros((2, page.page_bytes), np.uint8)
    for block in range(2):
        for head in range(3):
            for token in range(0, 48, TILE):
                page.tile(pages, block, head, token)[:] += 1
    assert (pages == 1).all()


@pytest.mark.parametrize("block", [0, -16, 24, 15])
def test_block_size_must_be_whole_tiles(block: int) -> None:
    with pytest.raises(GeometryError, match=f"block_size {block}"):
        layout("int8", "int8", block=block)
