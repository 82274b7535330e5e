"""The probe against the format's own numpy form, and against pages that hold something else."""

from __future__ import annotations

import numpy as np
import pytest

from kvant.cache.spec import CacheSpec
from kvant.errors import KernelError
from kvant.formats import TILE
from kvant.kernels.errors import Probe
from kvant.kernels.layer import attention_of

HEADS, DIM = 3, 64
SPEC = CacheSpec.from_json({"key": "int4", "value": "int4", "rotate": False})


def stored(rng: np.random.Generator, count: int = 40) -> tuple:
    """Tokens scattered over 3 pages: kernels, pages, keys, values, slots."""
    layout = SPEC.layout(DIM, HEADS)
    paged = attention_of(SPEC, layout, 0, range(HEADS))
    pages = np.zeros((3, layout.page_bytes), np.uint8)
    slots = rng.permutation(3 * layout.block_size)[:count]
    key, value = rng.normal(size=(2, count, HEADS, DIM)).astype(np.float32)
    paged.encode(pages, key, value, slots)
    return paged, pages, key, value, slots


def test_pages_are_decoded_by_slot(rng: np.random.Generator) -> None:
    paged, pages, key, value, slots = stored(rng)
    for meant, read, fmt in zip(
        (key, value), paged.decode(pages, slots), (SPEC.key, SPEC.value), strict=True
    ):
        flat = meant.reshape(-1, DIM)
        np.testing.assert_allclose(read.reshape(-1, DIM), fmt.decode(fmt.encode(flat), DIM), atol=1e-5)
    with pytest.raises(KernelError, match="slots: names tokens outside 0 to 191"):
        paged.decode(pages, np.array([192]))


def test_the_error_is_that_of_the_tokens_sampled(rng: np.random.Generator) -> None:
    paged, pages, key, value, slots = stored(rng)
    probe = Probe(SPEC, paged.layout, 0, range(HEADS))
    part = slice(7, 7 + TILE)
    errors = probe.log_errors(paged, pages, key[part], value[part], slots[part])
    lost = np.stack([key, value])[:, part] - paged.decode(pages, slots[part])
    np.testing.assert_allclose(errors, np.log((lost**2).mean(3)).mean(1), atol=0.02)  # beside 32 bits
    pages[:] = 0
    assert (probe.log_errors(paged, pages, key[part], value[part], slots[part]) > errors + 4).all()
