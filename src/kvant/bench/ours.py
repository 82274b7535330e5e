"""Kvant's side of the comparison: packed pages in random order, read cold."""

from __future__ import annotations

import numpy as np

from kvant.bench.cases import Case
from kvant.cache.layout import PageLayout
from kvant.formats import parse
from kvant.kernels import Batch, PagedAttention, reference
from kvant.kernels.memory import ask_for_huge_pages
from kvant.transforms import Rotation

BLOCK = 64
COLD = 256 << 20
"""Bytes that lie between two readings of one page: more than a core's share of any cache."""


def copies(bytes_read: int) -> int:
    """Contexts to go round, so that none is in a cache when it is read again."""
    return max(2, -(-COLD // bytes_read))


class Packed:
    """One format: `run(i)` attends over context i, `read(i)` only reads its pages."""

    def __init__(self, case: Case, fmt: str, kernel: str = "auto", precise: bool = False) -> None:
        import torch

        self.case = case
        layout = PageLayout(parse(fmt), parse(fmt), case.head_dim, case.kv_heads, BLOCK)
        signs = Rotation(0, case.head_dim).table(0, range(case.kv_heads), "key")
        self.signs = signs if parse(fmt).needs_rotation else None
        self.paged = PagedAttention(layout, self.signs, self.signs, kernel, precise)
        self.bytes = case.vectors * layout.bytes_per_token_head
        blocks = -(-case.context // BLOCK) * case.batch
        self.count = copies(self.bytes)
        order = torch.randperm(blocks * self.count, dtype=torch.int32).reshape(self.count, case.batch, -1)
        self.pages = torch.zeros(blocks * self.count, layout.page_bytes, dtype=torch.uint8)
        ask_for_huge_pages(self.pages)  # as the plugin does
        shape = (case.context * case.batch, case.kv_heads, case.head_dim)
        key, value = torch.randn(shape, dtype=torch.bfloat16), torch.randn(shape, dtype=torch.bfloat16)
        position = torch.arange(case.context)
        slots = order[0].long()[:, position // BLOCK] * BLOCK + position % BLOCK
        self.paged.encode(self.pages, key, value, slots.reshape(-1))
        for other in order[1:]:
            self.pages[other.reshape(-1).long()] = self.pages[order[0].reshape(-1).long()]
        self.starts = torch.arange(case.batch + 1, dtype=torch.int32) * case.tokens
        self.lengths = torch.full((case.batch,), case.context, dtype=torch.int32)
        self.batches = [Batch(table, self.starts, self.lengths) for table in order]
        self.order = order
        heads = case.kv_heads * case.group
        self.query = torch.randn(case.batch * case.tokens, heads, case.head_dim, dtype=torch.bfloat16)
        self.out = torch.empty_like(self.query)
        need = self.paged.workspace_bytes(heads, len(self.query), case.context, case.batch)
        self.workspace = torch.empty(need, dtype=torch.uint8)
        self.scale = case.head_dim**-0.5

    def run(self, i: int) -> None:
        batch = self.batches[i % self.count]
        self.paged.attend(self.pages, self.query, self.out, batch, self.workspace, scale=self.scale)

    def read(self, i: int) -> None:
        self.paged.read(self.pages, self.order[i % self.count].reshape(-1))

    def error(self) -> float:
        """Relative error of the last token's outputs against float64 on the same decoded vectors."""
        query = self.query.float()
        out = query.clone()
        self.paged.attend(self.pages, query, out, self.batches[0], self.workspace, scale=self.scale)
        last = self.case.tokens - 1  # of the first sequence
        expected = reference.attend(
            self.paged.layout,
            self.pages.numpy(),
            query[last : last + 1].numpy(),
            self.order[0][:1].numpy(),
            np.array([0, 1], np.int32),
            np.array([self.case.context], np.int32),
            key_signs=self.signs,
            value_signs=self.signs,
            scale=self.scale,
        )
        got = out[last : last + 1].numpy()
        return float(np.linalg.norm(got - expected) / np.linalg.norm(expected))
