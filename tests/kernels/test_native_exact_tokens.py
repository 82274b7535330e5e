"""Sinks and the recent window: what a query reads in 16 bits depends on its position, not on the schedule."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.typing import NDArray

from kvant.cache import PageLayout
from kvant.cache.exact import ExactMap, ExactStep
from kvant.formats import KEY_FORMATS, VALUE_FORMATS
from kvant.formats.scales import from_bf16, to_bf16
from kvant.kernels import Batch, Exact, PagedAttention, reference
from kvant.kernels.paged import exact_layout
from kvant.transforms import KeyTransform, Rotation, ValueTransform
from kvant.transforms.rotation import rotate
from tests.kernels.native import ISAS, relative, starts

BOUND = 3e-3
"""As in test_native_attend.py, default mode."""


Pair = tuple[KeyTransform | None, ValueTransform | None]


def some_transform(heads: int, head_dim: int, rng: np.random.Generator) -> Pair:
    """Of keys and of values: well conditioned, of no special form, and not symmetric."""
    matrix = np.eye(head_dim) + rng.standard_normal((heads, head_dim, head_dim)) / (3 * head_dim**0.5)
    mean = rng.standard_normal((heads, head_dim)) * 3
    both = mean.astype(np.float32), matrix.astype(np.float32)
    return KeyTransform(*both), ValueTransform(-both[0], np.ascontiguousarray(both[1][:, ::-1]))


def stored_in_16_bits(
    key: NDArray[np.float32], value: NDArray[np.float32], pair: Pair, signs: NDArray[np.float32]
) -> tuple[list[NDArray[np.float32]], list[NDArray[np.float32]]]:
    """One sequence's vectors as its 16-bit tiles hold them."""
    key = pair[0].stored(key) if pair[0] else rotate(key, signs)  # type: ignore[assignment]
    value = pair[1].stored(value) if pair[1] else rotate(value, signs)  # type: ignore[assignment]
    return [from_bf16(to_bf16(key.astype(np.float32)))], [from_bf16(to_bf16(value.astype(np.float32)))]


@dataclass
class Engine:
    """One layer as the engine drives it: sequences that grow step by step over shared pages."""

    kernels: PagedAttention
    sinks: int
    window: int
    lengths: list[int]
    rng: np.random.Generator
    group: int = 3
    done: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        layout = self.kernels.layout
        width = -(-max(self.lengths) // layout.block_size)
        blocks = self.rng.permutation(len(self.lengths) * width + 1)[1:]
        self.table = blocks.reshape(len(self.lengths), width).astype(np.int32)
        self.pages = np.full((len(self.lengths) * width + 1, layout.page_bytes), 0xFF, np.uint8)
        self.map = ExactMap(self.sinks, self.window, layout.block_size, len(self.lengths))
        size = exact_layout(layout).page_bytes
        self.kept = np.full((self.map.kept, size), 0xFF, np.uint8)
        self.kernels.keep(self.kept)
        self.staged = np.full(self.map.staged(max(self.lengths)) * size, 0xFF, np.uint8)
        heads, dim = layout.num_kv_heads, layout.head_dim
        self.key, self.value, self.query = (
            [self.rng.standard_normal((n, h, dim)).astype(np.float32) for n in self.lengths]
            for h in (heads, heads, heads * self.group)
        )

    def step(self, work: dict[int, int], window: int = 0) -> dict[int, NDArray[np.float32]]:
        """`work[i]` more tokens of sequence i; returns their outputs."""
        seqs, counts = list(work), list(work.values())
        begins = [self.done.get(i, 0) for i in seqs]
        for i, n in work.items():
            self.done[i] = self.done.get(i, 0) + n
        spans = list(zip(seqs, begins, counts, strict=True))
        key, value, query = (
            np.concatenate([what[i][b : b + n] for i, b, n in spans])
            for what in (self.key, self.value, self.query)
        )
        size = self.kernels.layout.block_size
        positions = [np.arange(b, b + n) for _, b, n in spans]
        slots = np.concatenate(
            [self.table[i, p // size] * size + p % size for i, p in zip(seqs, positions, strict=True)]
        ).astype(np.int64)
        lengths = np.array([self.done[i] for i in seqs], np.int32)
        begin = starts(counts)
        step = self.map.step(self.table[seqs], begin.tolist(), lengths.tolist())
        exact = self.exact(step)
        self.kernels.encode(self.pages, key, value, slots, exact)
        out = np.full_like(query, np.nan)
        need = self.kernels.workspace_bytes(query.shape[1], len(query), int(lengths.max()), len(seqs))
        batch = Batch(self.table[seqs], begin, lengths)
        scale = self.kernels.layout.head_dim**-0.5
        self.kernels.attend(
            self.pages, query, out, batch, np.empty(need, np.uint8), scale=scale, exact=exact, window=window
        )
        return {i: out[begin[j] : begin[j + 1]] for j, i in enumerate(seqs)}

    def exact(self, step: ExactStep) -> Exact:
        return Exact(step, self.staged, exact_layout(self.kernels.layout).page_bytes, self.map.kept)

    def expected(
        self, i: int, pair: Pair, signs: NDArray[np.float32], window: int = 0
    ) -> NDArray[np.float64]:
        n = self.lengths[i]
        key, value = stored_in_16_bits(self.key[i], self.value[i], pair, signs)
        tokens = reference.ExactTokens(key, value, [self.sinks], [0], self.window)
        plain = None if pair[0] else signs
        return reference.attend(
            self.kernels.layout, self.pages, self.query[i], self.table[i : i + 1], starts([n]), np.array([n]),
            scale=self.kernels.layout.head_dim**-0.5, window=window, key_transform=pair[0],
            value_transform=pair[1], key_signs=plain, value_signs=plain, exact=tokens,
        )  # fmt: skip


def engine(
    isa: str, rng: np.random.Generator, lengths: list[int], *, sinks: int = 4, window: int = 64,
    formats: tuple[str, str] = ("codebook4", "codebook2"), head_dim: int = 64, calibrated: bool = True,
) -> tuple[Engine, Pair, NDArray[np.float32]]:  # fmt: skip
    heads = 2
    layout = PageLayout(KEY_FORMATS[formats[0]], VALUE_FORMATS[formats[1]], head_dim, heads, 32)
    signs = Rotation(5, head_dim).table(0, range(heads), "value")
    transform = some_transform(heads, head_dim, rng) if calibrated else (None, None)
    plain = None if calibrated else signs
    kernels = PagedAttention(
        layout, plain, plain, kernel=isa, key_transform=transform[0], value_transform=transform[1]
    )
    return Engine(kernels, sinks, window, lengths, rng), transform, signs


@ISAS
@pytest.mark.parametrize(
    ("sinks", "window", "formats"),
    [
        (4, 64, ("codebook4", "codebook2")),
        (0, 20, ("codebook3+jl", "int4-asym")),
        (17, 0, ("codebook4", "codebook2")),
    ],
)
def test_against_the_reference(
    isa: str, sinks: int, window: int, formats: tuple[str, str], rng: np.random.Generator
) -> None:
    """One-shot prefills of which some are shorter than sinks and window together."""
    one, transform, signs = engine(
        isa,
        rng,
        [3, 70, 120],
        sinks=sinks,
        window=window,
        formats=formats,
        calibrated=formats[1] == "codebook2",
    )
    got = one.step({0: 3, 1: 70, 2: 120})
    for i, out in got.items():
        assert relative(out, one.expected(i, transform, signs)) < BOUND


@ISAS
def test_inside_a_sliding_window(isa: str, rng: np.random.Generator) -> None:
    """The layer's own window bounds both: sinks fall out of it, and it may be the smaller one."""
    for sliding in (40, 100):
        one, transform, signs = engine(isa, rng, [140], sinks=4, window=64)
        assert relative(one.step({0: 140}, sliding)[0], one.expected(0, transform, signs, sliding)) < BOUND


@ISAS
@pytest.mark.parametrize("head_dim", [80])
def test_chunks_mates_and_decode_change_nothing(isa: str, head_dim: int, rng: np.random.Generator) -> None:
    """The same bits whether a prompt comes at once, in chunks beside others, or token by token."""
    lengths = [333, 1100, 150]
    state = rng.bit_generator.state
    whole, *_ = engine(isa, rng, lengths, head_dim=head_dim)
    expected = {i: whole.step({i: n})[i] for i, n in enumerate(lengths)}
    rng.bit_generator.state = state
    pieces, *_ = engine(isa, rng, lengths, head_dim=head_dim)
    got: dict[int, list[NDArray[np.float32]]] = {i: [] for i in range(3)}
    for work in (
        {1: 512}, {0: 100, 1: 400}, {0: 1, 2: 100}, {1: 60, 0: 7}, {2: 1, 0: 201},
        *({0: 1, 2: 1, 1: 1} for _ in range(24)), {1: 104, 2: 25},
    ):  # fmt: skip
        for i, out in pieces.step(work).items():
            got[i].append(out)
    for i, n in enumerate(lengths):
        assert pieces.done[i] == n
        np.testing.assert_array_equal(np.concatenate(got[i]), expected[i])


def test_copies_that_are_gone_are_read_from_codes(rng: np.random.Generator) -> None:
    """A cached prefix whose copies were given up: the queries after it read its codes, and say so."""
    one, transform, signs = engine("generic", rng, [200])
    one.step({0: 128})
    one.map = ExactMap(4, 64, 32, 1)
    out = one.step({0: 72})[0]
    one.sinks = 0
    tokens_from = 128
    key, value = stored_in_16_bits(one.key[0], one.value[0], transform, signs)
    exact = reference.ExactTokens(key, value, [0], [tokens_from], 64)
    want = reference.attend(
        one.kernels.layout, one.pages, one.query[0], one.table, starts([200]), np.array([200]), scale=0.125,
        key_transform=transform[0], value_transform=transform[1], exact=exact,
    )  # fmt: skip
    assert relative(out, want[128:]) < BOUND


def test_the_step_is_checked() -> None:
    """Pages that do not exist, and a map of another batch, are refused before anything is written."""
    rng = np.random.default_rng(0)
    one, *_ = engine("generic", rng, [64])
    step = one.map.step(one.table, [0, 64], [64])
    step.token_pages[5] = 999
    exact = one.exact(step)
    slots = np.arange(64, dtype=np.int64)
    with pytest.raises(ValueError, match="token 5 goes to page 999"):
        one.kernels.encode(one.pages, one.key[0], one.value[0], slots, exact)
    assert one.pages.min() == 0xFF
    step.tiles[0, -1] = 999
    exact = one.exact(step)
    out, batch = np.empty_like(one.query[0]), Batch(one.table, starts([64]), np.array([64], np.int32))
    with pytest.raises(ValueError, match="has no page"):
        one.kernels.attend(
            one.pages, one.query[0], out, batch, np.empty(1 << 22, np.uint8), scale=1.0, exact=exact
        )
