"""One layer of the cache: its packed pages, and attention over them."""

from __future__ import annotations

from typing import Any

import torch
from transformers.cache_utils import CacheLayerMixin

from kvant.cache.spec import CacheSpec
from kvant.errors import EngineError
from kvant.kernels import PagedAttention
from kvant.kernels.layer import attention_of
from kvant.kernels.paged import exact_layout
from kvant.research.history import History
from kvant.research.step import Copies, Kind, Step
from kvant.research.table import Table
from kvant.research.ticket import Ticket


class KvantLayer(CacheLayerMixin):
    """Pages of one spec (`CacheSpec.of_layer`); `sliding` is how many tokens a query sees, 0 = all."""

    is_croppable = True
    paged: PagedAttention
    kind: Kind
    pages: torch.Tensor
    """uint8 (pages, bytes)."""
    copies: torch.Tensor
    """Sinks and recent windows in 16 bits, uint8 (tiles, bytes)."""

    def __init__(
        self, index: int, spec: CacheSpec, sliding: int, history: History, modules: frozenset[int]
    ) -> None:
        super().__init__()
        self.index, self.spec, self.sliding, self.history, self.modules = (
            index,
            spec,
            sliding,
            history,
            modules,
        )
        self.is_sliding = sliding > 0
        self.columns = 0

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Fix the geometry, which the model shows with its first keys."""
        _, heads, _, head_dim = key_states.shape
        if key_states.shape != value_states.shape:
            raise EngineError(
                f"layer {self.index}: keys {tuple(key_states.shape)} and values {tuple(value_states.shape)} "
                "differ in shape; a Kvant cache does not serve such attention"
            )
        layout = self.spec.layout(head_dim, heads)
        self.paged = attention_of(self.spec, layout, self.index, range(heads))
        self.kind = Kind(
            layout.block_size,
            self.spec.sinks,
            self.spec.window,
            self.sliding,
            exact_layout(layout).page_bytes,
        )
        self.pages = torch.empty((0, layout.page_bytes), dtype=torch.uint8)
        self.copies = torch.empty((0, self.kind.copy_bytes), dtype=torch.uint8)
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Ticket, Ticket]:
        """Tickets for keys and values (rows, KV heads, columns, D), which are stored when attention runs."""
        if self.history.closed:
            raise EngineError("the KvantCache is closed, and the model has its own attention back")
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        return Ticket(self, key_states), Ticket(self, value_states)

    def attend(
        self,
        module: torch.nn.Module,
        query: torch.Tensor,
        key: Ticket,
        value: Ticket,
        mask: torch.Tensor | None,
        *,
        scale: float,
        sliding: int,
        softcap: float,
        sinks: torch.Tensor | None,
    ) -> torch.Tensor:
        """Store the pass's new tokens and attend for its queries; see `kvant.research.attention.attend`."""
        if id(module) not in self.modules:
            raise EngineError("the KvantCache was made for another model: KvantCache(model, spec) makes one")
        if sliding != self.sliding:
            raise EngineError(
                f"layer {self.index}: its window is {sliding} tokens, its configuration says {self.sliding}"
            )
        rows, _, count, _ = query.shape
        if not key.begun:
            self._begin(rows, count, mask)
        fresh = torch.from_numpy(self.history.fresh(count))
        padded = not bool(fresh.all())
        q, k, v = (_tokens(x, fresh if padded else None) for x in (query, key.states, value.states))
        out = torch.empty_like(q)
        logits = None if sinks is None else sinks.detach().float().contiguous()
        for step in self.history.steps(self.kind, count):
            self._make_room(step)
            # A layer that reads another's keys stores them again: the 16-bit tiles that live for one step
            # alone are written over by the layers between.
            self.paged.encode(self.pages, k[step.tokens], v[step.tokens], step.slots, step.exact)
            asked = q[step.tokens]
            found = out[step.tokens] if isinstance(step.tokens, slice) else torch.empty_like(asked)
            need = self.paged.workspace_bytes(asked.shape[1], len(asked), step.longest, rows)
            self.paged.attend(
                self.pages, asked, found, step.batch, torch.empty(need, dtype=torch.uint8),
                scale=scale, window=self.sliding, softcap=softcap, sinks=logits, exact=step.exact,
            )  # fmt: skip
            if not isinstance(step.tokens, slice):
                out[step.tokens] = found
        if not key.begun:
            key.begun, self.columns = True, self.history.columns
        if not padded:
            return out.view(rows, count, *out.shape[1:])
        spread = out.new_zeros((rows, count, *out.shape[1:]))
        spread[fresh] = out
        return spread

    def _begin(self, rows: int, count: int, mask: torch.Tensor | None) -> None:
        if self.columns == self.history.columns:
            self.history.begin(rows, count, mask)
        if self.columns + count != self.history.columns:
            raise EngineError("a forward pass was interrupted, or left layers out: reset() the cache")

    def _make_room(self, step: Step) -> None:
        """Grow by the blocks that are missing; room for 16-bit copies is made once, for all rows."""
        if step.pages > len(self.pages):
            grown = self.pages.new_empty((step.pages, self.pages.shape[1]))
            grown[: len(self.pages)] = self.pages
            self.pages = grown
        if step.exact is not None and len(self.copies) < step.exact.kept:
            self.copies = self.copies.new_empty((step.exact.kept, self.copies.shape[1]))
            self.paged.keep(self.copies)

    def select(self, table: Table, copies: Copies) -> None:
        """Hold the pages of a table made by `Table.select`."""
        theirs, ours = torch.from_numpy(copies.pages).long().T
        pages = self.pages.new_empty((table.pages, self.pages.shape[1]))
        pages[ours] = self.pages[theirs]
        kept = self.copies.new_empty((table.copies, self.copies.shape[1]))
        theirs, ours = torch.from_numpy(copies.tiles).long().T
        kept[ours] = self.copies[theirs]
        self.pages, self.copies = pages, kept
        self.paged.keep(kept)

    @property
    def nbytes(self) -> int:
        """Bytes allocated: pages, and 16-bit copies."""
        return self.pages.nbytes + self.copies.nbytes if self.is_initialized else 0

    @property
    def numbers(self) -> int:
        """Numbers of keys and values that later queries can see: what a 16-bit cache would hold."""
        if not self.is_initialized:
            return 0
        seen = self.history.real.sum(1)
        tokens = int((seen.clip(max=self.sliding) if self.sliding else seen).sum())
        return 2 * tokens * self.paged.layout.num_kv_heads * self.paged.layout.head_dim

    def get_seq_length(self) -> int:
        return self.columns

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.columns + query_length, 0

    def get_max_length(self) -> int:
        return -1

    def reset(self) -> None:
        self.columns = 0
        self.is_initialized = False

    def take(self, other: KvantLayer) -> None:
        """Become a copy of another layer of the same index and spec."""
        self.columns, self.is_initialized = other.columns, other.is_initialized
        if other.is_initialized:
            layout = other.paged.layout
            self.kind, self.paged = (
                other.kind,
                attention_of(self.spec, layout, self.index, range(layout.num_kv_heads)),
            )
            self.pages, self.copies = other.pages.clone(), other.copies.clone()
            self.paged.keep(self.copies)


def _tokens(states: torch.Tensor, real: torch.Tensor | None) -> torch.Tensor:
    """(rows, heads, columns, D) to (tokens, heads, D) without padding, heads of a token together."""
    by_token = states.detach().transpose(1, 2)
    return (by_token.flatten(0, 1) if real is None else by_token[real]).contiguous()
