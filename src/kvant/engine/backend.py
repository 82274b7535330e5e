"""The attention backend: how vLLM sizes a page, and which classes write and read it.

One backend class for each cache spec, because vLLM asks the class, not an instance, for the size of
a page, and layers of one model may differ (skipped layers keep 16 bits).
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

import torch
from vllm.v1.attention.backend import AttentionBackend, AttentionType, MultipleOf
from vllm.v1.kv_cache_interface import KVCacheLayout

from kvant.cache.layout import fitting_block
from kvant.cache.spec import BLOCK_SIZE
from kvant.errors import ConfigError
from kvant.formats import TILE

if TYPE_CHECKING:
    from vllm.v1.kv_cache_interface import AttentionSpec

    from kvant.cache.spec import CacheSpec
    from kvant.engine.impl import KvantImpl
    from kvant.engine.metadata import KvantMetadataBuilder


class KvantBackend(AttentionBackend):
    """Packed low-bit pages. `spec` and `beside` are set by `backend_for`."""

    spec: ClassVar[CacheSpec]
    beside: ClassVar[CacheSpec | None] = None
    forward_includes_kv_cache_update = False
    supported_dtypes: ClassVar[list[torch.dtype]] = [torch.float16, torch.bfloat16, torch.float32]

    @staticmethod
    def get_name() -> str:
        return "CUSTOM"

    @staticmethod
    def get_supported_kernel_block_sizes(kv_cache_spec: object = None) -> list[int | MultipleOf]:
        return [MultipleOf(TILE)]

    @classmethod
    def get_preferred_block_size(cls, default_block_size: int) -> int:
        return BLOCK_SIZE

    @classmethod
    def get_supported_head_sizes(cls) -> list[int]:
        return list(range(16, 513, 16))

    @classmethod
    def supported_kv_cache_layouts(cls) -> tuple[KVCacheLayout, ...]:
        # Block, then head, then token: a page is contiguous and ours to lay out.
        return (KVCacheLayout.LBHNC,)

    @classmethod
    def supports_sliding_window(cls) -> bool:
        return True

    @classmethod
    def supports_sink(cls) -> bool:
        return True

    @classmethod
    def supports_batch_invariance(cls) -> bool:
        return True

    @classmethod
    def supports_kv_connector(cls) -> bool:
        return False

    @classmethod
    def supports_attn_type(cls, attn_type: str) -> bool:
        return bool(attn_type == AttentionType.DECODER)

    @classmethod
    def customize_spec(cls, spec: AttentionSpec) -> AttentionSpec:
        """Tell vLLM the bytes of one token and head, keys and values together. Idempotent."""
        if spec.state_content_bytes is not None:
            return spec
        layout = cls.spec.layout(spec.head_size, spec.num_kv_heads)
        packed = replace(spec, dtype=torch.uint8, state_content_bytes=layout.bytes_per_token_head)
        if (
            cls.beside is None or spec.block_size < TILE
        ):  # a block of 1 is vLLM asking for the size of a token
            return packed
        return _fit(packed, cls.beside)

    @staticmethod
    def get_impl_cls() -> type[KvantImpl]:
        from kvant.engine.impl import KvantImpl

        return KvantImpl

    @staticmethod
    def get_builder_cls() -> type[KvantMetadataBuilder]:
        from kvant.engine.metadata import KvantMetadataBuilder

        return KvantMetadataBuilder


def _fit(kept: AttentionSpec, beside: CacheSpec) -> AttentionSpec:
    """A 16-bit page no larger than the packed page of the other layers.

    Where a model mixes full and sliding-window layers, vLLM gives all layers pages of one size and
    would pad the packed ones up to a 16-bit page: nothing would be saved, without a word.
    """
    packed = beside.layout(kept.head_size, kept.num_kv_heads).bytes_per_token_head * kept.num_kv_heads
    token = kept.state_content_bytes * kept.num_kv_heads
    fitting = fitting_block(token, packed * kept.block_size)
    if not fitting:
        needed = -(-TILE * token // (packed * TILE)) * TILE
        raise ConfigError(
            f"skip_layers: {TILE} tokens of a 16-bit layer do not fit a packed page of {kept.block_size} "
            f"tokens in this model, which mixes full and sliding-window layers; set block_size to {needed}"
        )
    return replace(kept, block_size=fitting, page_size_padded=packed * kept.block_size)


def backend_for(spec: CacheSpec, beside: CacheSpec | None = None) -> type[KvantBackend]:
    """The backend class of one cache spec; the same arguments give the same class.

    `beside` is given for 16-bit layers whose pages must be as large as that spec's. vLLM groups layers
    by class name, so different specs must have different names.
    """
    return _backend_for(spec, beside)


@lru_cache(maxsize=32)
def _backend_for(spec: CacheSpec, beside: CacheSpec | None) -> type[KvantBackend]:
    name = f"KvantBackend[{spec.name}{' beside ' + beside.name if beside else ''}]"
    fields = {"spec": spec, "beside": beside, "__module__": __name__, "__qualname__": name}
    return type(name, (KvantBackend,), fields)
