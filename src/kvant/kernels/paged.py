"""`PagedAttention`: the native kernels for one page layout, arguments checked, nothing allocated."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kvant.errors import KernelError
from kvant.formats import KEY_FORMATS, TILE, VALUE_FORMATS
from kvant.formats.base import Meta
from kvant.formats.codebook import TABLES, Codebook
from kvant.formats.integer import Integer
from kvant.formats.jl import Residual, sketch_signs, unbiasing
from kvant.formats.polar import CENTRES, Polar
from kvant.formats.trellis import Trellis
from kvant.formats.trellis_tables import STEPS
from kvant.kernels.arrays import FLOATS, Array, contiguous, token_stride, view
from kvant.kernels.table import select

if TYPE_CHECKING:
    from kvant.cache.exact import ExactStep
    from kvant.cache.layout import PageLayout
    from kvant.formats import Format
    from kvant.kernels import _native
    from kvant.transforms import KeyTransform, ValueTransform


class Batch:
    """The sequences of one step, checked once for all layers.

    block_table int32 (sequences, blocks), query_start int32 (sequences + 1,), seq_lens int32 (sequences,).
    """

    __slots__ = ("_arrays", "lengths", "seqs", "starts", "table", "table_stride", "tokens")

    def __init__(self, block_table: Array, query_start: Array, seq_lens: Array) -> None:
        self.seqs = view("seq_lens", seq_lens).shape[0]
        table = view("block_table", block_table)
        if table.dtype != "int32" or len(table.shape) != 2 or table.shape[0] < self.seqs:
            raise KernelError(
                f"block_table: expected int32 ({self.seqs}, *), got {table.dtype} {table.shape}"
            )
        rows, width = table.shape
        if width > 1 and table.strides[1] != 1:
            raise KernelError(
                f"block_table: blocks of a sequence must be contiguous, strides {table.strides}"
            )
        self.table = table.address
        self.table_stride = table.strides[0] if rows > 1 else width
        self.starts = contiguous("query_start", query_start, "int32", (self.seqs + 1,))
        self.lengths = contiguous("seq_lens", seq_lens, "int32", (self.seqs,))
        self.tokens = int(query_start[self.seqs])
        self._arrays = (block_table, query_start, seq_lens)  # kept alive: the kernels hold addresses

    def positions(self, tokens: NDArray[np.int64]) -> NDArray[np.int64]:
        """Of these tokens of the step (n,), where each stands in its sequence."""
        starts, lengths = (np.asarray(array) for array in self._arrays[1:])
        row = np.searchsorted(starts, tokens, side="right") - 1
        found: NDArray[np.int64] = lengths[row] - starts[row + 1] + tokens
        return found


class Exact:
    """Where one step's 16-bit tiles lie, checked once for all layers.

    `staged` is uint8 memory for the pages of this step alone, each of `page_bytes` (`exact_layout`).
    """

    __slots__ = ("_arrays", "kept", "page_bytes", "seqs", "staged", "tables", "token_pages", "tokens")

    def __init__(self, step: ExactStep, staged: Array, page_bytes: int, kept: int) -> None:
        self.seqs, columns = step.tiles.shape
        self.tokens, self.kept, self.page_bytes = len(step.token_pages), kept, page_bytes
        self.staged = contiguous("staged", staged, "uint8", (None,)), staged.shape[0] // page_bytes
        self.tables = (
            step.window, contiguous("tiles", step.tiles, "int32", (self.seqs, columns)), columns,
            *(contiguous(n, getattr(step, n), "int32", (self.seqs,)) for n in ("first", "start", "sinks")),
            step.sink_tiles,
        )  # fmt: skip
        self.token_pages = contiguous("token_pages", step.token_pages, "int32", (self.tokens,))
        self._arrays = (step, staged)  # kept alive: the kernels hold addresses


class PagedAttention:
    """Encode into and attend over pages of one layout.

    `key_signs` and `value_signs` are float32 (KV heads, head_dim), the diagonal of each head's
    rotation (`transforms.Rotation.table`), or None for no rotation; `key_transform` and `value_transform`
    are calibrated transforms, which contain the rotation. Shapes and types are checked on
    every call and named in the error; the kernels themselves never allocate. By default integer codes
    are multiplied as integers (queries and weights in two 8-bit terms); `precise` decodes to floats.
    """

    def __init__(
        self,
        layout: PageLayout,
        key_signs: NDArray[np.float32] | None = None,
        value_signs: NDArray[np.float32] | None = None,
        kernel: str = "auto",
        precise: bool = False,
        key_transform: KeyTransform | None = None,
        value_transform: ValueTransform | None = None,
    ) -> None:
        for side, signs, transform in (
            ("key", key_signs, key_transform),
            ("value", value_signs, value_transform),
        ):
            if signs is not None and transform is not None:
                raise KernelError(
                    f"{side}_signs: a calibrated transform contains the rotation; give one of both"
                )
        self.layout = layout
        self.precise = precise
        self.kernel, self.why_not_better = select(kernel)
        from kvant.kernels import _native

        self._native = _native
        self._page_bytes = layout.page_bytes
        self._last_pages: Array = None
        self._last_view = (0, 0, 0)
        self._layout = native_layout(layout)
        shape = (layout.num_kv_heads, layout.head_dim)
        self._signs = (key_signs, value_signs)  # kept alive: the kernels hold addresses
        self._key_signs = 0 if key_signs is None else contiguous("key_signs", key_signs, "float32", shape)
        self._value_signs = (
            0 if value_signs is None else contiguous("value_signs", value_signs, "float32", shape)
        )
        self._transforms = (key_transform, value_transform)
        self._encoders = self._encoder(key_transform) + self._encoder(value_transform)
        self._readers = (0, 0, 0)
        square = (*shape, layout.head_dim)
        if key_transform is not None:
            self._readers = (contiguous("query", key_transform.query, "float32", square), 0, 0)
        if value_transform is not None:
            output = contiguous("output", value_transform.output, "float32", square)
            self._readers = (self._readers[0], self._encoders[2], output)
        self._exact = exact_layout(layout)
        self._kept: Array = None
        self._kept_address = 0

    def _encoder(self, transform: KeyTransform | ValueTransform | None) -> tuple[int, int]:
        """Addresses of mean and matrix."""
        if transform is None:
            return 0, 0
        shape = (self.layout.num_kv_heads, self.layout.head_dim)
        return (
            contiguous("mean", transform.mean, "float32", shape),
            contiguous("matrix", transform.matrix, "float32", (*shape, shape[1])),
        )

    def keep(self, pages: Array) -> None:
        """Use uint8 (pages, `exact_layout(...).page_bytes`) for the 16-bit tiles that outlive a step."""
        self._kept_address = contiguous("kept", pages, "uint8", (None, self._exact.page_bytes))
        self._kept = pages

    @property
    def keeps(self) -> bool:
        """Whether it has memory for 16-bit tiles."""
        return self._kept is not None

    def workspace_bytes(self, num_q_heads: int, max_tokens: int, max_seq_len: int, max_seqs: int) -> int:
        """Scratch that any `attend` within these limits needs at most."""
        size: int = self._native.workspace_bytes(self._layout, num_q_heads, max_tokens, max_seq_len, max_seqs)
        return size

    def encode(
        self, pages: Array, key: Array, value: Array, slots: Array, exact: Exact | None = None
    ) -> None:
        """Write keys and values (tokens, KV heads, D) at `slots` int64 (tokens,); -1 is skipped.

        With `exact` the tokens that its step names are also written to their 16-bit tiles.
        pages: uint8 (blocks, ...), the bytes of a page contiguous; pages may lie apart.
        """
        k, v = view("key", key), view("value", value)
        kind = self._float("key", k.dtype)
        heads, head_dim = self.layout.num_kv_heads, self.layout.head_dim
        key_stride = token_stride("key", k, k.dtype, heads, head_dim)
        value_stride = token_stride("value", v, k.dtype, heads, head_dim)
        count = k.shape[0]
        if v.shape[0] != count:
            raise KernelError(f"value: {v.shape[0]} tokens, but key has {count}")
        where = contiguous("slots", slots, "int64", (count,))
        address, blocks, page_stride = self._pages(pages)
        self._native.encode(
            self.kernel.name, self._layout, address, blocks, page_stride, k.address, v.address,
            key_stride, value_stride, kind, where, count, self._key_signs, self._value_signs,
            *self._encoders, *self._exact_pages(exact, count),
        )  # fmt: skip

    def attend(
        self,
        pages: Array,
        query: Array,
        out: Array,
        batch: Batch,
        workspace: Array,
        *,
        scale: float,
        window: int = 0,
        softcap: float = 0.0,
        sinks: Array | None = None,
        exact: Exact | None = None,
    ) -> None:
        """Attention of queries (tokens, query heads, D) into `out`, same shape and type.

        Row i of a sequence sits at position seq_len - query_len + i and reads every position up to its
        own (within `window` if not 0) from the pages. `sinks` float32 (query heads,) are logits that
        only enter the softmax denominator; `softcap` bounds the scores (0 = off). With `exact` the first
        and the most recent positions are read from their 16-bit tiles.
        """
        q = view("query", query)
        kind = self._float("query", q.dtype)
        num_q_heads, head_dim = q.shape[1] if len(q.shape) == 3 else 0, self.layout.head_dim
        if num_q_heads % self.layout.num_kv_heads:
            raise KernelError(
                f"query: {num_q_heads} heads do not divide over {self.layout.num_kv_heads} KV heads"
            )
        query_stride = token_stride("query", q, q.dtype, num_q_heads, head_dim)
        o = view("out", out)
        out_stride = token_stride("out", o, q.dtype, num_q_heads, head_dim)
        if batch.tokens > q.shape[0] or batch.tokens > o.shape[0]:
            raise KernelError(
                f"query_start ends at {batch.tokens}, but query has {q.shape[0]} rows and out {o.shape[0]}"
            )
        if exact is not None and exact.seqs != batch.seqs:
            raise KernelError(f"exact: made for {exact.seqs} sequences, the batch has {batch.seqs}")
        address, blocks, page_stride = self._pages(pages)
        scratch = view("workspace", workspace)
        self._native.attend(
            self.kernel.name, self._layout, address, blocks, page_stride,
            q.address, query_stride, o.address, out_stride, kind, batch.table, batch.table_stride,
            batch.starts, batch.lengths, batch.seqs, num_q_heads, float(scale), int(window), float(softcap),
            0 if sinks is None else contiguous("sinks", sinks, "float32", (num_q_heads,)),
            self._key_signs, self._value_signs, scratch.address, scratch.shape[0], self.precise,
            *self._readers, *(self._exact_memory(exact) + exact.tables if exact is not None else ()),
        )  # fmt: skip

    def decode(self, pages: Array, slots: NDArray[np.int64]) -> NDArray[np.float32]:
        """Keys and values (2, tokens, KV heads, D) at `slots` (tokens,), decoded, still transformed."""
        address, blocks, stride = self._pages(pages)
        layout, last = self.layout, blocks * self.layout.block_size - 1
        if len(slots) and not 0 <= slots.min() <= slots.max() <= last:
            raise KernelError(f"slots: names tokens outside 0 to {last}")
        tiles, where = np.unique(slots // TILE, return_inverse=True)
        per_page = layout.block_size // TILE
        found = np.empty((2, layout.num_kv_heads, len(tiles), TILE, layout.head_dim), np.float32)
        for side, head, n in np.ndindex(found.shape[:3]):
            page, tile = divmod(int(tiles[n]), per_page)
            source = address + page * stride + (head * per_page + tile) * layout.tile_bytes
            out = found[side, head, n].ctypes.data
            self._native.decode_tile(self.kernel.name, self._layout, source, side, out)
        return found[:, :, where, slots % TILE].transpose(0, 2, 1, 3)

    def read(self, pages: Array, order: Array) -> int:
        """Only read the pages `order` int32 (n,) names: the bound that attention is measured against."""
        address, blocks, page_stride = self._pages(pages)
        where = contiguous("order", order, "int32", (None,))
        if not all(0 <= int(page) < blocks for page in (order.min(), order.max())):
            raise KernelError(f"order: names pages outside 0 to {blocks - 1}")
        found: int = self._native.read_pages(
            self.kernel.name, address, page_stride, self._page_bytes, where, order.shape[0]
        )
        return found

    def _exact_pages(self, exact: Exact | None, count: int) -> tuple[Any, ...]:
        if exact is None:
            return ()
        if exact.tokens < count:
            raise KernelError(f"exact: made for {exact.tokens} tokens, key has {count}")
        return (*self._exact_memory(exact), exact.token_pages)

    def _exact_memory(self, exact: Exact) -> tuple[Any, ...]:
        if (
            self._kept is None
            or self._kept.shape[0] < exact.kept
            or self._exact.page_bytes != exact.page_bytes
        ):
            raise KernelError(
                f"exact: made for {exact.kept} kept pages of {exact.page_bytes} bytes; name them with `keep`"
            )
        return (native_layout(self._exact), self._kept_address, exact.kept, *exact.staged)

    def _pages(self, pages: Array) -> tuple[int, int, int]:
        """Address, number of pages, and bytes between them (vLLM pads pages of some hybrid models)."""
        if pages is self._last_pages:  # the same tensor, step after step
            return self._last_view
        v = view("pages", pages)
        size, contiguous_page = 1, v.dtype == "uint8"
        for extent, stride in zip(v.shape[:0:-1], v.strides[:0:-1], strict=True):
            contiguous_page &= extent == 1 or stride == size
            size *= extent
        if not contiguous_page or size != self._page_bytes:
            raise KernelError(
                f"pages: expected uint8 (blocks, ...) with {self._page_bytes} contiguous bytes a block,"
                f" got {v.dtype} {tuple(v.shape)} with strides {v.strides}"
            )
        found = v.address, v.shape[0], v.strides[0] if v.shape[0] > 1 else size
        self._last_pages, self._last_view = pages, found
        return found

    def _float(self, name: str, dtype: str) -> int:
        if dtype not in FLOATS:
            raise KernelError(f"{name}: element type {dtype} is not one of {', '.join(FLOATS)}")
        return FLOATS[dtype]


@lru_cache(maxsize=64)
def exact_layout(layout: PageLayout) -> PageLayout:
    """Pages of one tile in 16 bits, of the same heads."""
    return replace(layout, key=KEY_FORMATS["bf16"], value=VALUE_FORMATS["bf16"], block_size=TILE)


@lru_cache(maxsize=64)
def native_layout(layout: PageLayout) -> _native.Layout:
    """The kernels' own description of a layout; they recompute every offset and refuse to disagree."""
    from kvant.kernels import _native

    return _native.Layout(
        _side(layout.key, layout.head_dim),
        _side(layout.value, layout.head_dim),
        layout.head_dim,
        layout.num_kv_heads,
        layout.block_size,
        layout.value_codes,
        layout.key_meta,
        layout.value_meta,
        layout.tile_bytes,
    )


def _side(fmt: Format, head_dim: int) -> _native.Side:
    from kvant.kernels import _native

    base = fmt.base if isinstance(fmt, Residual) else fmt
    levels = CENTRES.reshape(-1) if isinstance(fmt, Polar) else fmt.levels()
    step = TABLES[base.width][1] if isinstance(base, Codebook) else 1.0
    return _native.Side(
        kind=fmt.kind,
        bits=fmt.bits,
        asymmetric=isinstance(fmt, Integer) and fmt.asymmetric,
        byte_scale=fmt.meta[:1] == (Meta("scale", 1),),
        levels=[float(x) for x in levels],
        step=STEPS[fmt.width] if isinstance(fmt, Trellis) else step,
        signs=[float(x) for x in sketch_signs(head_dim).reshape(-1)] if isinstance(fmt, Residual) else [],
        weight=unbiasing(head_dim) if isinstance(fmt, Residual) else 0.0,
        code_bytes=fmt.code_bytes(head_dim),
        meta_bytes=sum(m.bytes for m in fmt.meta),
    )
