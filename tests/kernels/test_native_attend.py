"""Attention over packed pages against float64 on the same decoded vectors, every path and format."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from kvant.formats import KEY_FORMATS, VALUE_FORMATS, Format
from kvant.kernels import Batch, _native, reference
from kvant.kernels.paged import native_layout
from tests.kernels.native import FORMATS, HEAD_DIMS, ISAS, Paged, attention, paged, relative, starts

PRECISE = 1e-5
"""Largest relative error of a float32 output row. The codes' own error is not in it: both sides read them."""
BOUND = 3e-3
"""The same where codes are multiplied as integers; 1e-4 is usual, minima and 7-bit terms (AVX2) cost more."""


def check(
    cache: Paged,
    query: NDArray[np.float32],
    tokens: list[int],
    lengths: list[int] | None = None,
    *,
    expected: NDArray[np.float64] | None = None,
    bounds: tuple[float, float] = (BOUND, PRECISE),
    **options: float,
) -> None:
    """Both ways to multiply, the usual one and the precise one, against one reference."""
    if expected is None:
        expected = cache.expected(query, tokens, lengths, **options)
    for precise, bound in zip((False, True), bounds, strict=True):
        cache.attention.precise = precise
        got = cache.attend(query, tokens, lengths, **options)
        assert relative(got, expected) < bound, (precise, tokens, lengths, options)


@ISAS
@FORMATS
def test_every_format(isa: str, key: Format, value: Format, rng: np.random.Generator) -> None:
    """A prefill from nothing, a chunk over cached tokens and a decode, in one batch."""
    cache = paged(isa, key, value, [37, 150, 200], rng)
    tokens = [37, 20, 1]
    check(cache, cache.queries(tokens, 3), tokens)


@ISAS
@pytest.mark.parametrize("head_dim", [*HEAD_DIMS, 16, 512])
@pytest.mark.parametrize("name", ["bf16", "int8", "codebook4", "codebook3+jl"])
def test_every_head_dim(isa: str, head_dim: int, name: str, rng: np.random.Generator) -> None:
    cache = paged(isa, name, name.removesuffix("+jl"), [70, 33], rng, head_dim=head_dim)
    tokens = [2, 33]
    check(cache, cache.queries(tokens, 2), tokens)


@ISAS
@pytest.mark.parametrize("group", [1, 3, 5, 6, 7, 8, 12, 14, 16, 24, 28, 71])
def test_every_group_reads_its_own_head(isa: str, group: int, rng: np.random.Generator) -> None:
    """KV head h holds the value h everywhere, so every query head must answer with its head (H5-12)."""
    for head_dim, heads in ((64, 3), (80, 5)):
        kernels, _ = attention(isa, KEY_FORMATS["int8"], VALUE_FORMATS["int8"], head_dim, heads)
        pages = np.full((4, kernels.layout.page_bytes), 0xFF, np.uint8)
        key = rng.standard_normal((50, heads, head_dim)).astype(np.float32)
        value = np.broadcast_to(np.arange(heads, dtype=np.float32)[:, None], key.shape).copy()
        table = np.array([[3, 1]], np.int32)
        kernels.encode(pages, key, value, np.where(np.arange(50) < 32, 96, 0) + np.arange(50))
        for tokens in (1, 7):
            query = rng.standard_normal((tokens, heads * group, head_dim)).astype(np.float32)
            out = np.full_like(query, np.nan)
            need = kernels.workspace_bytes(heads * group, tokens, 50, 1)
            batch = Batch(table, starts([tokens]), np.array([50], np.int32))
            kernels.attend(pages, query, out, batch, np.empty(need, np.uint8), scale=0.3)
            own = np.arange(heads * group) // group
            np.testing.assert_allclose(
                out, np.broadcast_to(own[None, :, None], out.shape), rtol=2e-2, atol=1e-7
            )


@ISAS
@pytest.mark.parametrize("name", ["int8", "codebook4"])
def test_all_query_heads_on_one(isa: str, name: str, rng: np.random.Generator) -> None:
    cache = paged(isa, name, name, [90, 40], rng, heads=1)
    tokens = [3, 40]
    check(cache, cache.queries(tokens, 71), tokens)


@ISAS
@pytest.mark.parametrize("window", [1, 5, 16, 100, 128, 500])
@pytest.mark.parametrize("block_size", [16, 48])
def test_windows(isa: str, window: int, block_size: int, rng: np.random.Generator) -> None:
    """A query at p reads (p - window, p]; blocks before it belong to nobody and are not looked at."""
    lengths, tokens = [250, 700, 33], [60, 1, 33]
    cache = paged(isa, "codebook4", "int8", lengths, rng, block_size=block_size)
    query = cache.queries(tokens, 3)
    expected = cache.expected(query, tokens, window=window)
    for seq, (length, count) in enumerate(zip(lengths, tokens, strict=True)):
        cache.table[seq, : max(0, length - count + 1 - window) // block_size] = -7
    check(cache, query, tokens, expected=expected, window=window)


@ISAS
@pytest.mark.parametrize("softcap", [0.5, 30.0, 50.0])
def test_softcap(isa: str, softcap: float, rng: np.random.Generator) -> None:
    cache = paged(isa, "int8", "int8", [150], rng)
    for scale in (0.02, 0.125, 5.0):
        # A logit's error grows with its size; near the cap the float path rounds at 3e-5.
        bounds = (BOUND * max(1.0, scale), 3e-5)
        check(cache, cache.queries([150], 2), [150], bounds=bounds, scale=scale, softcap=softcap)


@ISAS
@pytest.mark.parametrize("size", [-100.0, 0.0, 3.0, 40.0])
def test_sinks(isa: str, size: float, rng: np.random.Generator) -> None:
    cache = paged(isa, "int8", "codebook4", [300, 20], rng)
    tokens = [2, 20]
    query = cache.queries(tokens, 3)
    sinks = (size + rng.standard_normal(6)).astype(np.float32)
    got = cache.attend(query, tokens, sinks=sinks)
    assert relative(got, cache.expected(query, tokens, sinks=sinks)) < BOUND
    if size >= 0:
        assert relative(got, cache.expected(query, tokens)) > 1e-3, "the sink did nothing"


@ISAS
@pytest.mark.parametrize("scale", [0.0, 0.125, 3.0, 30.0])
def test_flat_and_peaked_softmax(isa: str, scale: float, rng: np.random.Generator) -> None:
    """Logits from all equal to hundreds apart; the error grows with their size, as float32 does."""
    cache = paged(isa, "bf16", "int8", [1500], rng)
    query = cache.queries([4], 2)
    bound = BOUND * max(1.0, scale)
    assert relative(cache.attend(query, [4], scale=scale), cache.expected(query, [4], scale=scale)) < bound


@ISAS
@pytest.mark.parametrize("name", ["int8", "int4-asym", "trellis4"])
def test_huge_scores_lose_no_weight(isa: str, name: str, rng: np.random.Generator) -> None:
    """Equal values are their own mean, however large the scores: the weights of a row stay in their terms."""
    cache = paged(isa, name, "int8", [1024], rng, heads=1)
    value = np.ones((1024, 1, 64), np.float32)
    cache.attention.encode(cache.pages, cache.key[0], value, cache.slots(0))
    want = cache.expected(cache.queries([1], 1), [1], [1])
    query = cache.queries([40], 3)
    for scale in (1.0, 3e2, 3e3, 3e4, 1e6, 1e9):
        got = cache.attend(query, [40], scale=scale)
        assert relative(got, np.broadcast_to(want[:1, :1], got.shape)) < BOUND, scale


@ISAS
@pytest.mark.parametrize("name", ["bf16", "codebook3"])
def test_long_contexts_cross_every_border(isa: str, name: str, rng: np.random.Generator) -> None:
    """Around the stretches of 128 and the ranges of 1024 tokens, decode and prefill."""
    cache = paged(isa, name, name, [2200], rng, heads=1)
    for length in (127, 128, 129, 1023, 1024, 1025, 1152, 2048, 2049, 2200):
        for tokens in (1, 40):
            check(cache, cache.queries([tokens], 2), [tokens], [length])


@ISAS
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sixteen_bit_queries_and_outputs(isa: str, dtype: str, rng: np.random.Generator) -> None:
    """The same arithmetic as float32; only the output is rounded, to nearest even."""
    cache = paged(isa, "codebook4", "codebook4", [45], rng)
    wide = cache.queries([45], 3)
    raw = wide.astype(np.float16) if dtype == "float16" else (wide.view(np.uint32) >> 16).astype(np.uint16)
    exact = raw.astype(np.float32) if dtype == "float16" else (raw.astype(np.uint32) << 16).view(np.float32)
    full = cache.attend(exact, [45])
    kernels = cache.attention
    out = np.zeros((45, 8, 64), raw.dtype)  # 6 heads in rows of 8
    table, lengths, query_start = cache.table, np.array([45], np.int32), starts([45])
    workspace = np.empty(kernels.workspace_bytes(6, 45, 45, 1), np.uint8)
    signs = [s.ctypes.data for s in kernels._signs if s is not None]
    _native.attend(
        isa, native_layout(kernels.layout), cache.pages.ctypes.data, len(cache.pages),
        cache.pages.shape[1], raw.ctypes.data, 6 * 64,
        out.ctypes.data, 8 * 64,
        2 if dtype == "float16" else 1, table.ctypes.data, table.shape[1],
        query_start.ctypes.data, lengths.ctypes.data, 1, 6, 0.125, 0, 0.0, 0, *signs,
        workspace.ctypes.data, workspace.size,
    )  # fmt: skip
    rounded = full.astype(np.float16) if dtype == "float16" else nearest_bf16(full)
    assert np.array_equal(out[:, :6], rounded)
    assert np.all(out[:, 6:] == 0)


def nearest_bf16(x: NDArray[np.generic]) -> NDArray[np.uint16]:
    bits = x.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


@ISAS
def test_extreme_outputs_in_float16(isa: str) -> None:
    """Overflow, subnormals and ties, as numpy converts them; each output is the mean of two bf16 values."""
    pairs = [
        (0, 0), (1, 1), (-1, -1), (131072, -64), (131072, -34), (131072, -32), (-131072, -8192), (2, 2**-10),
        (2, 3 * 2**-10), (4096, 2), (4096, 6), (2**-14, 2**-14), (2**-13, -(2**-23)), (2**-24, 2**-24),
        (2**-24, 0), (2**-24, 2**-25), (2**-22, 2**-24), (3e-6, -1e-6), (1e-9, 1e-9), (3e38, 3e38),
    ]  # fmt: skip
    value = np.zeros((2, 1, 32), np.float32)
    value[:, 0, : len(pairs)] = np.array(pairs, np.float32).T
    kernels, _ = attention(isa, KEY_FORMATS["bf16"], VALUE_FORMATS["bf16"], 32, 1, 16)
    pages = np.zeros((1, kernels.layout.page_bytes), np.uint8)
    kernels.encode(pages, np.zeros_like(value), value, np.arange(2))
    mean = kernels.layout.read(kernels.layout.tile(pages, 0, 0, 0), "value")[:2].mean(
        axis=0, dtype=np.float64
    )
    query, out = np.zeros((1, 1, 32), np.float16), np.ones((1, 1, 32), np.float16)
    batch = Batch(np.zeros((1, 1), np.int32), starts([1]), np.array([2], np.int32))
    kernels.attend(
        pages, query, out, batch, np.empty(kernels.workspace_bytes(1, 1, 2, 1), np.uint8), scale=1.0
    )
    with np.errstate(over="ignore"):
        assert np.array_equal(out[0, 0], mean.astype(np.float32).astype(np.float16))


@ISAS
def test_idle_sequences_and_rows_after_the_last_are_left_alone(isa: str, rng: np.random.Generator) -> None:
    cache = paged(isa, "int8", "int8", [50, 20, 30], rng)
    tokens = [2, 0, 1]
    query = np.concatenate((cache.queries(tokens, 2), cache.queries([5], 2)))
    out = cache.attend(query, tokens)
    expected = reference.attend(
        cache.attention.layout,
        cache.pages,
        query,
        cache.table,
        starts(tokens),
        np.array(cache.lengths),
        scale=0.125,
    )
    assert relative(out[:3], expected[:3]) < BOUND
    assert np.all(np.isnan(out[3:])), "padding rows must not be written"


@ISAS
def test_what_cannot_be_served_is_refused_by_name(isa: str, rng: np.random.Generator) -> None:
    cache = paged(isa, "int8", "int8", [100, 70], rng)
    query = cache.queries([1, 1], 2)
    good = cache.table.copy()
    for entry, wild in ((1, len(cache.pages)), (2, -1)):
        cache.table = good.copy()
        cache.table[1, entry] = wild
        with pytest.raises(ValueError, match=rf"sequence 1: entry {entry} of its block table is {wild}"):
            cache.attend(query, [1, 1])
        cache.table[1, 3] = -9  # sequence 1 has 70 tokens: entry 3 is beyond it and must not matter
    cache.table = good
    with pytest.raises(ValueError, match="sequence 0: seq_len 129 needs 5 blocks, its block table has 4"):
        cache.attend(query, [1, 1], [129, 70])
    with pytest.raises(ValueError, match="sequence 1: 2 query tokens, but seq_len 1"):
        cache.attend(cache.queries([1, 2], 2), [1, 2], [100, 1])
    with pytest.raises(ValueError, match="window: -1"):
        cache.attend(query, [1, 1], window=-1)
    with pytest.raises(ValueError, match="softcap"):
        cache.attend(query, [1, 1], softcap=float("nan"))
    batch = Batch(cache.table, starts([1, 1]), np.array([100, 70], np.int32))
    with pytest.raises(ValueError, match=r"workspace: 100 bytes, but 2 sequences on .* threads need"):
        cache.attention.attend(cache.pages, query, query.copy(), batch, np.empty(100, np.uint8), scale=0.125)
