"""vLLM's own CPU attention over its own paged cache: what `kvant bench attention` compares with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch

BLOCK = 32
"""Tokens in a page, as vLLM chooses on a CPU."""


class Shape(Protocol):
    """What `kvant.bench.cases.Case` tells."""

    @property
    def head_dim(self) -> int: ...
    @property
    def group(self) -> int: ...
    @property
    def kv_heads(self) -> int: ...
    @property
    def context(self) -> int: ...
    @property
    def batch(self) -> int: ...
    @property
    def tokens(self) -> int: ...
    @property
    def vectors(self) -> int: ...


class VllmAttention:
    """The operations as vLLM's CPU backend calls them, with the instruction set it would choose, or `isa`."""

    def __init__(
        self, case: Shape, kv_cache_dtype: str, copies: Callable[[int], int], isa: str | None = None
    ) -> None:
        from vllm import _custom_ops as ops
        from vllm.platforms import current_platform
        from vllm.v1.attention.backends.cpu_attn import _get_attn_isa

        current_platform.import_kernels()
        if torch.cpu._is_amx_tile_supported():
            torch.cpu._init_amx()  # the process must ask Linux before it may use the tiles
        self._ops, self.dtype = ops, kv_cache_dtype
        self.isa = isa or _get_attn_isa(torch.bfloat16, BLOCK, case.head_dim, kv_cache_dtype)
        element = torch.bfloat16 if kv_cache_dtype == "auto" else torch.uint8
        blocks = -(-case.context // BLOCK) * case.batch
        size = case.vectors * case.head_dim * 2 * element.itemsize
        self.count = copies(size)
        order = torch.randperm(blocks * self.count, dtype=torch.int32).reshape(self.count, case.batch, -1)
        cache = torch.zeros(blocks * self.count, case.kv_heads, 2 * BLOCK, case.head_dim, dtype=element)
        self.key, self.value = cache.chunk(2, dim=2)
        shape = (case.context * case.batch, case.kv_heads, case.head_dim)
        position = torch.arange(case.context)
        slots = (order[0].long()[:, position // BLOCK] * BLOCK + position % BLOCK).reshape(-1)
        key, value = torch.randn(shape, dtype=torch.bfloat16), torch.randn(shape, dtype=torch.bfloat16)
        ops.cpu_attn_reshape_and_cache(
            key, value, self.key, self.value, slots, self.isa, kv_cache_dtype=kv_cache_dtype
        )
        for other in order[1:]:
            cache[other.reshape(-1).long()] = cache[order[0].reshape(-1).long()]
        self.tables = list(order)
        heads = case.kv_heads * case.group
        self.query = torch.randn(case.batch * case.tokens, heads, case.head_dim, dtype=torch.bfloat16)
        self.out = torch.empty_like(self.query)
        self.starts = torch.arange(case.batch + 1, dtype=torch.int32) * case.tokens
        self.lengths = torch.full((case.batch,), case.context, dtype=torch.int32)
        self.scale = case.head_dim**-0.5
        self.plan = ops.cpu_attn_get_scheduler_metadata(
            num_reqs=case.batch,
            num_heads=heads,
            num_kv_heads=case.kv_heads,
            head_dim=case.head_dim,
            seq_lens=self.lengths,
            dtype=torch.bfloat16,
            query_start_loc=self.starts,
            causal=True,
            sliding_window_size=-1,
            isa=self.isa,
            enable_kv_split=True,
            kv_cache_dtype=kv_cache_dtype,
        )

    def run(self, i: int) -> None:
        self._ops.cpu_attention_with_kv_cache(
            query=self.query,
            key_cache=self.key,
            value_cache=self.value,
            output=self.out,
            query_start_loc=self.starts,
            seq_lens=self.lengths,
            scale=self.scale,
            causal=True,
            alibi_slopes=None,
            sliding_window=-1,
            block_table=self.tables[i % self.count],
            softcap=0.0,
            scheduler_metadata=self.plan,
            s_aux=None,
            kv_cache_dtype=self.dtype,
        )
