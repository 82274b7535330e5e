"""What the tests of the native kernels share: the paths of this machine, and small paged caches."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.typing import NDArray

from kvant.cache.layout import PageLayout
from kvant.formats import KEY_FORMATS, TILE, VALUE_FORMATS, Format
from kvant.kernels import Batch, PagedAttention, available, reference
from kvant.kernels.paged import native_layout
from kvant.transforms import Rotation

HEAD_DIMS = (64, 80, 96, 112, 128, 192, 256)

ELSEWHERE = "not compiled for this architecture"
"""Of these paths `tests/kernels/emulated` runs those it can."""

ISAS = pytest.mark.parametrize(
    "isa",
    [
        pytest.param(k.name, marks=() if k.available else pytest.mark.skip(reason=f"{k.name}: {k.why_not}"))
        for k in available()
        if k.why_not != ELSEWHERE
    ],
)
"""Every compiled path; one that cannot run here is reported as skipped, with the reason."""


def partner(key: Format) -> Format:
    """The format that values get beside such keys: the same, or the base of a residual."""
    return VALUE_FORMATS.get(key.name) or VALUE_FORMATS[key.name.removesuffix("+jl")]


PAIRS = [(key, partner(key)) for key in KEY_FORMATS.values()] + [
    (KEY_FORMATS[k], VALUE_FORMATS[v])
    for k, v in (
        ("int8", "codebook4"), ("codebook4+jl", "int4-asym"), ("bf16", "codebook2-byte"),
        ("int8", "bf16"), ("trellis4", "polar"), ("int4-asym", "bf16"),
    )
]  # fmt: skip
"""Every key format with a sensible value format, and mixtures, in which either side may have no integers."""
FORMATS = pytest.mark.parametrize(("key", "value"), PAIRS, ids=[f"{k}/{v}" for k, v in PAIRS])


@dataclass
class Paged:
    """Sequences in packed pages, their blocks in random order among poisoned free ones."""

    attention: PagedAttention
    lengths: list[int]
    rng: np.random.Generator
    poison: int = 0xFF
    key: list[NDArray[np.float32]] = field(default_factory=list)
    value: list[NDArray[np.float32]] = field(default_factory=list)
    signs: tuple[NDArray[np.float32] | None, NDArray[np.float32] | None] = (None, None)

    def __post_init__(self) -> None:
        layout = self.attention.layout
        width = max(-(-n // layout.block_size) for n in self.lengths)
        blocks = len(self.lengths) * width + 2
        self.pages = np.full((blocks, layout.page_bytes), self.poison, np.uint8)
        self.table = self.rng.permutation(blocks)[: len(self.lengths) * width].astype(np.int32)
        self.table = self.table.reshape(len(self.lengths), width)
        shape = (layout.num_kv_heads, layout.head_dim)
        for seq, n in enumerate(self.lengths):
            self.key.append(self.rng.standard_normal((n, *shape)).astype(np.float32))
            self.value.append(self.rng.standard_normal((n, *shape)).astype(np.float32))
            self.attention.encode(self.pages, self.key[seq], self.value[seq], self.slots(seq))

    def slots(self, seq: int) -> NDArray[np.int64]:
        size = self.attention.layout.block_size
        position = np.arange(self.lengths[seq])
        return self.table[seq, position // size].astype(np.int64) * size + position % size

    def queries(self, tokens: list[int], group: int) -> NDArray[np.float32]:
        layout = self.attention.layout
        shape = (sum(tokens), layout.num_kv_heads * group, layout.head_dim)
        return self.rng.standard_normal(shape).astype(np.float32)

    def attend(
        self,
        query: NDArray[np.generic],
        tokens: list[int],
        lengths: list[int] | None = None,
        seqs: list[int] | None = None,
        **options: object,
    ) -> NDArray[np.generic]:
        """Attention of `tokens[i]` last tokens of sequence `seqs[i]` cut at `lengths[i]`."""
        layout = self.attention.layout
        rows = list(range(len(tokens))) if seqs is None else seqs
        seq_lens = np.array(self.lengths if lengths is None else lengths, np.int32)
        batch = Batch(self.table[rows], starts(tokens), seq_lens)
        need = self.attention.workspace_bytes(query.shape[1], len(query), int(seq_lens.max()), len(rows))
        workspace = np.full(need, 0xFF, np.uint8)
        out = np.full_like(query, np.nan)
        options.setdefault("scale", layout.head_dim**-0.5)
        self.attention.attend(self.pages, query, out, batch, workspace, **options)  # type: ignore[arg-type]
        return out

    def expected(
        self,
        query: NDArray[np.float32],
        tokens: list[int],
        lengths: list[int] | None = None,
        **options: object,
    ) -> NDArray[np.float64]:
        """The same in numpy, float64, from the vectors that numpy decodes from the same pages."""
        seq_lens = np.array(self.lengths if lengths is None else lengths, np.int32)
        options.setdefault("scale", self.attention.layout.head_dim**-0.5)
        return reference.attend(
            self.attention.layout,
            self.pages,
            query,
            self.table,
            starts(tokens),
            seq_lens,
            key_signs=self.signs[0],
            value_signs=self.signs[1],
            **options,  # type: ignore[arg-type]
        )


def starts(tokens: list[int]) -> NDArray[np.int32]:
    return np.concatenate(([0], np.cumsum(tokens))).astype(np.int32)


def signs_for(
    key: Format, value: Format, head_dim: int, heads: int
) -> tuple[NDArray[np.float32] | None, NDArray[np.float32] | None]:
    """Rotations as an engine would choose them: of both sides if one of them needs it."""
    if not (key.needs_rotation or value.needs_rotation):
        return None, None
    rotation = Rotation(11, head_dim)
    return rotation.table(3, range(heads), "key"), rotation.table(3, range(heads), "value")


def attention(
    isa: str,
    key: Format,
    value: Format,
    head_dim: int = 64,
    heads: int = 2,
    block_size: int = 32,
    precise: bool = False,
) -> tuple[PagedAttention, tuple[NDArray[np.float32] | None, NDArray[np.float32] | None]]:
    signs = signs_for(key, value, head_dim, heads)
    layout = PageLayout(key, value, head_dim, heads, block_size)
    return PagedAttention(layout, *signs, kernel=isa, precise=precise), signs


def paged(
    isa: str,
    key: str | Format,
    value: str | Format,
    lengths: list[int],
    rng: np.random.Generator,
    *,
    head_dim: int = 64,
    heads: int = 2,
    block_size: int = 32,
    poison: int = 0xFF,
    precise: bool = False,
) -> Paged:
    key = KEY_FORMATS[key] if isinstance(key, str) else key
    value = VALUE_FORMATS[value] if isinstance(value, str) else value
    kernels, signs = attention(isa, key, value, head_dim, heads, block_size, precise)
    return Paged(kernels, lengths, rng, poison, signs=signs)


def decode_tile(isa: str, layout: PageLayout, tile: NDArray[np.uint8], side: str) -> NDArray[np.float32]:
    """The 16 vectors of a tile as the native kernels see them."""
    from kvant.kernels import _native

    tile = np.ascontiguousarray(tile)
    out = np.full((TILE, layout.head_dim), np.nan, np.float32)
    number = ("key", "value").index(side)
    _native.decode_tile(isa, native_layout(layout), tile.ctypes.data, number, out.ctypes.data)
    return out


def relative(got: NDArray[np.generic], expected: NDArray[np.float64]) -> float:
    """The largest error of an output row, relative to the size of that row."""
    size = np.linalg.norm(expected, axis=-1)
    return float((np.linalg.norm(got.astype(np.float64) - expected, axis=-1) / size).max())
