"""Pages that lie apart (vLLM pads them in hybrid models) read like pages that do not."""

from __future__ import annotations

import numpy as np
import pytest

from kvant.cache import PageLayout
from kvant.errors import KernelError
from kvant.formats import parse
from kvant.kernels import Batch, PagedAttention


def test_padding_between_pages_is_neither_read_nor_written(rng: np.random.Generator) -> None:
    layout = PageLayout(parse("int8"), parse("int8"), 64, 2, 16)
    paged = PagedAttention(layout)
    key, value = rng.standard_normal((2, 40, 2, 64)).astype(np.float32)
    query = rng.standard_normal((1, 4, 64)).astype(np.float32)
    slots = np.arange(40, dtype=np.int64)
    batch = Batch(np.arange(3, dtype=np.int32)[None], np.array([0, 1], np.int32), np.array([40], np.int32))
    workspace = np.zeros(paged.workspace_bytes(4, 1, 40, 1), np.uint8)
    outputs = []
    for padding in (0, 128):
        memory = np.full((3, layout.page_bytes + padding), 0xFF, np.uint8)
        pages = (
            memory[:, : layout.page_bytes].reshape(3, 2, 16, -1)
            if not padding
            else memory[:, : layout.page_bytes]
        )
        paged.encode(pages, key, value, slots)
        out = np.zeros_like(query)
        paged.attend(pages, query, out, batch, workspace, scale=0.125)
        outputs.append(out)
        assert (memory[:, layout.page_bytes :] == 0xFF).all()
    np.testing.assert_array_equal(*outputs)


def test_pages_of_another_size_are_refused() -> None:
    layout = PageLayout(parse("int8"), parse("int8"), 64, 2, 16)
    key = np.zeros((1, 2, 64), np.float32)
    with pytest.raises(KernelError, match="contiguous bytes a block"):
        PagedAttention(layout).encode(np.zeros((3, 100), np.uint8), key, key, np.zeros(1, np.int64))


def test_reading_pages_reads_every_byte_of_those_named(rng: np.random.Generator) -> None:
    """A plain read must not be cheaper than it says: any byte of a page changes what it returns."""
    layout = PageLayout(parse("int8"), parse("int8"), 64, 2, 16)
    paged = PagedAttention(layout)
    pages = rng.integers(0, 256, (5, layout.page_bytes), np.uint8)
    order = np.array([3, 0, 4], np.int32)
    before = paged.read(pages, order)
    for page, at in ((3, 0), (0, layout.page_bytes // 2), (4, layout.page_bytes - 1)):
        pages[page, at] ^= 1
        assert paged.read(pages, order) != before
        pages[page, at] ^= 1
    pages[1] ^= 1
    assert paged.read(pages, order) == before
    with pytest.raises(KernelError, match="outside 0 to 4"):
        paged.read(pages, np.array([5], np.int32))
