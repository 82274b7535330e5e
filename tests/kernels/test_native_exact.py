"""What a row's result may depend on: itself, its keys and values. Nothing else, to the last bit."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest

from kvant.formats import Format
from kvant.kernels import Batch
from tests.kernels.native import FORMATS, ISAS, Paged, paged, starts

SOME = pytest.mark.parametrize(
    ("key", "value"), [("int8", "int8"), ("codebook4+jl", "codebook3"), ("bf16", "polar")]
)


def same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.tobytes() == b.tobytes()


@ISAS
@FORMATS
def test_poisoned_free_pages_change_nothing(isa: str, key: Format, value: Format) -> None:
    """Every residue of a partial tile and block, free slots zero, 0xFF (NaN) or 0x7F (H5-01)."""
    lengths = [*range(1, 34), 257, 272]
    outputs = []
    for poison in (0x00, 0xFF, 0x7F):
        rng = np.random.default_rng(5)
        cache = paged(isa, key, value, lengths, rng, poison=poison, heads=1)
        query = cache.queries([1] * len(lengths), 2)
        outputs.append(cache.attend(query, [1] * len(lengths)))
        assert np.all(np.isfinite(outputs[-1]))
    assert same(outputs[0], outputs[1])
    assert same(outputs[0], outputs[2])


@ISAS
def test_partial_tiles_are_right_at_every_residue(isa: str, rng: np.random.Generator) -> None:
    lengths = [*range(1, 34)]
    cache = paged(isa, "codebook4", "int4", lengths, rng, precise=True)
    tokens = [min(n, 3) for n in lengths]
    query = cache.queries(tokens, 2)
    expected = cache.expected(query, tokens)
    np.testing.assert_allclose(cache.attend(query, tokens), expected, atol=1e-5)


@ISAS
@SOME
def test_mixed_batch_equals_solo(isa: str, key: str, value: str, rng: np.random.Generator) -> None:
    """A fresh long prompt, one with a cached prefix, and a decode, together and alone (H5-05)."""
    lengths, tokens = [512, 320, 512], [512, 64, 1]
    cache = paged(isa, key, value, lengths, rng)
    query = cache.queries(tokens, 3)
    together = cache.attend(query, tokens)
    first = starts(tokens)
    for seq in range(3):
        rows = slice(first[seq], first[seq + 1])
        alone = cache.attend(query[rows], [tokens[seq]], [lengths[seq]], [seq])
        assert same(together[rows], alone), seq
    pair = cache.attend(query[first[1] :], tokens[1:], lengths[1:], [1, 2])
    assert same(together[first[1] :], pair)


@ISAS
@SOME
@pytest.mark.parametrize(("length", "window"), [(1000, 0), (2100, 0), (2100, 700)])
def test_verifying_four_tokens_equals_four_decodes(
    isa: str, key: str, value: str, length: int, window: int, rng: np.random.Generator
) -> None:
    """Speculative decoding: K + 1 query tokens over the cached context (H5-09)."""
    cache = paged(isa, key, value, [length], rng)
    query = cache.queries([4], 3)
    verify = cache.attend(query, [4], window=window)
    for i in range(4):
        decode = cache.attend(query[i : i + 1], [1], [length - 3 + i], window=window)
        assert same(verify[i : i + 1], decode), i


@ISAS
@SOME
@pytest.mark.parametrize("window", [0, 90])
def test_chunks_equal_one_shot(isa: str, key: str, value: str, window: int, rng: np.random.Generator) -> None:
    length = 300
    cache = paged(isa, key, value, [length], rng, block_size=16)
    query = cache.queries([length], 2)
    whole = cache.attend(query, [length], window=window)
    for chunk in (17, 64, 200):
        parts = []
        for start in range(0, length, chunk):
            stop = min(length, start + chunk)
            parts.append(cache.attend(query[start:stop], [stop - start], [stop], window=window))
        assert same(np.concatenate(parts), whole), chunk


@ISAS
@SOME
def test_splitting_a_context_over_threads_changes_nothing(isa: str, key: str, value: str) -> None:
    """With room for partial results ranges are worked on apart and merged; without, one after another."""
    rng = np.random.default_rng(9)
    cache = paged(isa, key, value, [3000, 1100], rng, heads=1)
    layout, tokens = cache.attention.layout, [2, 1]
    query = cache.queries(tokens, 5)
    batch = Batch(cache.table, starts(tokens), np.array(cache.lengths, np.int32))
    sinks = np.linspace(-1, 1, 5, dtype=np.float32)
    outputs = []
    least = least_workspace(cache, query, batch)
    for size in (least, least + 10_000, cache.attention.workspace_bytes(5, 3, 3000, 2), least + (1 << 22)):
        out = np.zeros_like(query)
        workspace = np.full(size, 0xFF, np.uint8)
        cache.attention.attend(
            cache.pages, query, out, batch, workspace, scale=layout.head_dim**-0.5, sinks=sinks
        )
        outputs.append(out)
    assert all(same(out, outputs[0]) for out in outputs)


def least_workspace(cache: Paged, query: np.ndarray, batch: Batch) -> int:
    """The size that the refusal of a workspace of nothing asks for."""
    with pytest.raises(ValueError, match="need") as refusal:
        cache.attention.attend(cache.pages, query, query.copy(), batch, np.empty(0, np.uint8), scale=1.0)
    return int(str(refusal.value).split("need ")[1].split(";")[0])


def run_all() -> str:
    """A digest of pages and outputs of every path here: short and long, prefill and decode."""
    from kvant.kernels import available

    digest = hashlib.sha256()
    for kernel in available():
        if not kernel.available:
            continue
        for key, value in (("codebook3", "codebook3"), ("int8", "int4-asym")):
            rng = np.random.default_rng(3)
            cache = paged(kernel.name, key, value, [2500, 40, 300], rng, poison=0)
            digest.update(cache.pages.tobytes())
            for tokens in ([1, 1, 1], [1, 40, 100]):
                query = cache.queries(tokens, 3)
                digest.update(cache.attend(query, tokens).tobytes())
    return digest.hexdigest()


def test_any_number_of_threads_gives_the_same_bytes() -> None:
    digests = {}
    for threads in (1, 2, 3, 5):
        command = "from tests.kernels.test_native_exact import run_all; print(run_all())"
        env = {**os.environ, "OMP_NUM_THREADS": str(threads), "OMP_DYNAMIC": "false"}
        result = subprocess.run(
            [sys.executable, "-c", command], env=env, capture_output=True, text=True, check=True, timeout=300
        )
        digests[threads] = result.stdout.strip()
    assert len(set(digests.values())) == 1, digests
    assert len(digests[1]) == 64
