"""One attention layer: writes its keys and values into packed pages and attends over them."""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import torch
from vllm.config import get_current_vllm_config
from vllm.distributed import get_tensor_model_parallel_rank
from vllm.forward_context import get_forward_context
from vllm.model_executor.layers.attention import Attention
from vllm.model_executor.models.utils import extract_layer_index
from vllm.v1.attention.backend import AttentionImpl, AttentionType

from kvant.cache.exact import ExactMap, kept_pages
from kvant.cache.identity import PageIdentity
from kvant.cache.layout import PageLayout
from kvant.cache.spec import CacheSpec
from kvant.engine.announce import announce_memory
from kvant.engine.backend import KvantBackend, backend_for
from kvant.engine.metadata import KvantMetadata
from kvant.engine.refusals import check
from kvant.engine.selection import spec_of
from kvant.engine.timing import TIMES
from kvant.engine.watch import Watch
from kvant.errors import EngineError
from kvant.kernels import PagedAttention
from kvant.kernels.layer import attention_of
from kvant.kernels.memory import ask_for_huge_pages
from kvant.kernels.paged import exact_layout

if TYPE_CHECKING:
    from vllm.v1.kv_cache_interface import AttentionSpec


class KvantImpl(AttentionImpl[KvantMetadata]):
    """Bound to its layer once weights are loaded, to its pages once vLLM knows their size."""

    layer_name: str
    owner: int
    """Number of the layer that owns the pages: this one, or the one whose cache it shares."""
    spec: CacheSpec
    paged: PagedAttention
    bytes_per_token: float
    """As allocated: what vLLM pads a page with counts."""
    identity: PageIdentity
    exact_pages: torch.Tensor | None = None
    """Its sinks and recent windows in 16 bits, (pages, bytes)."""
    watch: Watch | None = None
    """What compares its errors with the calibrated ones: one object for all layers of the model."""
    advised: torch.Tensor | None = None
    """The pages that huge pages were asked for."""

    def __init__(
        self,
        num_heads: int,
        head_size: int,
        scale: float,
        num_kv_heads: int | None = None,
        alibi_slopes: list[float] | None = None,
        sliding_window: int | None = None,
        kv_cache_dtype: str = "auto",
        logits_soft_cap: float | None = None,
        attn_type: str = AttentionType.DECODER,
        kv_sharing_target_layer_name: str | None = None,
        sinks: torch.Tensor | None = None,
        **unknown: Any,
    ) -> None:
        refused = [name for name, value in unknown.items() if value is not None]
        refused += ["ALiBi"] if alibi_slopes is not None else []
        refused += [f"attention type {attn_type!r}"] if attn_type != AttentionType.DECODER else []
        if refused:
            raise EngineError(f"a Kvant cache does not serve this model's attention: {', '.join(refused)}")
        config = get_current_vllm_config()
        spec = spec_of(config)
        assert spec is not None
        check(config, spec)  # vLLM caches the selection of a backend, whatever the rest of the configuration
        self.model_spec = spec
        self.num_heads, self.head_size, self.scale = num_heads, head_size, float(scale)
        self.num_kv_heads = num_kv_heads or num_heads
        self.window = sliding_window or 0
        self.softcap = float(logits_soft_cap or 0.0)
        self.kv_cache_dtype = kv_cache_dtype
        self.kv_sharing_target_layer_name = kv_sharing_target_layer_name
        self.sinks = sinks
        self._config = config
        self._layers = config.compilation_config.static_forward_context
        self.heads = _global_heads(config, self.num_kv_heads)

    def process_weights_after_loading(self, act_dtype: torch.dtype) -> None:
        """Find the layer this object belongs to, and give it the backend of its own spec.

        vLLM asks `layer.attn_backend` for the size of a page later, and passes no layer name then.
        """
        self.layer_name, layer = next(
            (n, x) for n, x in self._layers.items() if getattr(x, "impl", None) is self
        )
        if type(layer) is not Attention or layer.attn_backend is not self._own(layer.attn_backend):
            raise EngineError(
                f"a Kvant cache does not serve {type(layer).__name__} (layer {self.layer_name}): "
                "its mask is made by a backend around ours, and would be lost"
            )
        self.owner = extract_layer_index(self.kv_sharing_target_layer_name or self.layer_name)
        self.spec = self.model_spec.of_layer(self.owner)
        if self.owner in self.model_spec.skip_layers:
            mixed = len({other.sliding_window for other in layers_of(self._layers).values()}) > 1
            layer.attn_backend = backend_for(self.spec, self.model_spec if mixed else None)
        else:
            layer.attn_backend = backend_for(self.spec)
        if self.sinks is not None:
            self.sinks = self.sinks.to(torch.float32).contiguous()
        if not self.kv_sharing_target_layer_name:
            self._count_exact()
        elif self.spec.window:
            # The 16-bit tiles of a step lie where each layer's do in turn: the owner's are gone by now.
            raise EngineError(
                f"layer {self.layer_name} reads another layer's cache: a recent window in 16 bits is not "
                "served for such models; choose a recipe with window 0, or `--preset int8`"
            )

    def _count_exact(self) -> None:
        """Take the memory of this layer's 16-bit tiles out of the memory that vLLM gives the cache."""
        cache, seqs = self._config.cache_config, self._config.scheduler_config.max_num_seqs
        layout = exact_layout(self.spec.layout(self.head_size, self.num_kv_heads))
        needed = sum(kept_pages(self.spec.sinks, self.spec.window, seqs)) * layout.page_bytes
        if cache.kv_cache_memory_bytes is None or not needed:
            return
        cache.kv_cache_memory_bytes -= needed
        if cache.kv_cache_memory_bytes <= 0:
            raise EngineError(
                f"the memory of the KV cache does not hold the sinks and recent windows of {seqs} sequences "
                f"in 16 bits, {needed / 2**20:.0f} MiB a layer: give it more (kv_cache.memory_gib), or run "
                "fewer at once (serving.max_batch, vLLM's --max-num-seqs)"
            )

    @staticmethod
    def _own(backend: type[KvantBackend]) -> type[KvantBackend]:
        """The class `backend_for` gives for that spec: another one means vLLM wrapped ours."""
        return backend_for(backend.spec, backend.beside)

    def prepare(self, kv_cache_spec: AttentionSpec) -> PagedAttention:
        """Fix the layout of the pages, as vLLM sized them, and load this layer's rotation."""
        layout = PageLayout(
            self.spec.key, self.spec.value, self.head_size, self.num_kv_heads, kv_cache_spec.block_size
        )
        made = kv_cache_spec.unpadded_page_size_bytes
        if made != layout.page_bytes:
            raise EngineError(
                f"layer {self.layer_name}: vLLM made pages of {made} bytes, {self.spec.name} needs "
                f"{layout.page_bytes}: the packed cache is not the one in use"
            )
        self.bytes_per_token = kv_cache_spec.page_size_bytes / layout.block_size
        self.paged = attention_of(self.spec, layout, self.owner, self.heads)
        self.identity = PageIdentity.of(
            layout, self.spec.rotate, self.spec.seed, self.spec.calibration_digest
        )
        watches = (layer.impl.watch for layer in layers_of(self._layers).values())
        self.watch = next((one for one in watches if one), None) or Watch(self._config.model_config.model)
        self.watch.include(self)
        return self.paged

    def exact_map(self, max_seqs: int) -> ExactMap | None:
        """What finds the 16-bit tiles of this layer and of those like it; None where it keeps none."""
        if not (self.spec.sinks or self.spec.window):
            return None
        return ExactMap(self.spec.sinks, self.spec.window, self.paged.layout.block_size, max_seqs)

    def keep(self, count: int) -> None:
        """Make room for `count` 16-bit tiles, once for the owner of the pages and all who share them."""
        owner = self._layers[self.kv_sharing_target_layer_name or self.layer_name].impl
        if owner.exact_pages is None:
            size = exact_layout(self.paged.layout).page_bytes
            owner.exact_pages = torch.empty((count, size), dtype=torch.uint8)
        self.paged.keep(owner.exact_pages)

    def do_kv_cache_update(
        self,
        layer: Attention,
        key: torch.Tensor,
        value: torch.Tensor,
        kv_cache: torch.Tensor,
        slot_mapping: torch.Tensor,
    ) -> None:
        """Encode the step's new tokens into their slots (-1 is padding)."""
        if kv_cache is not self.advised:  # once, before the first page is touched
            announce_memory(ask_for_huge_pages(kv_cache))
            self.advised = kv_cache
        start = perf_counter_ns()
        count = slot_mapping.shape[0]
        step = get_forward_context().attn_metadata
        if isinstance(step, list):
            raise EngineError("a Kvant cache does not serve steps in micro-batches (dual batch overlap)")
        own = step[layer.layer_name] if step else None  # None while vLLM warms up
        exact = own.exact if own else None
        self.paged.encode(kv_cache, key[:count], value[:count], slot_mapping, exact)
        if own and self.watch and self.watch.wants(self.owner, own.num_actual_tokens):
            self.watch.sample(self, kv_cache, key, value, slot_mapping, own)
        TIMES.encode += perf_counter_ns() - start

    def forward(
        self,
        layer: Attention,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        kv_cache: torch.Tensor,
        attn_metadata: KvantMetadata | None,
        output: torch.Tensor,
        output_scale: torch.Tensor | None = None,
        output_block_scale: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Attend over the pages; everything a query sees, itself included, is read from them."""
        if output_scale is not None or output_block_scale is not None:
            raise EngineError("a Kvant cache does not write quantised attention outputs")
        if attn_metadata is not None:  # None while vLLM warms up
            start = perf_counter_ns()
            self.paged.attend(
                kv_cache,
                query,
                output,
                attn_metadata.batch,
                attn_metadata.scratch,
                scale=self.scale,
                window=self.window,
                softcap=self.softcap,
                sinks=self.sinks,
                exact=attn_metadata.exact,
            )
            TIMES.attend += perf_counter_ns() - start
        return output


def _global_heads(config: Any, local: int) -> range:
    """The model-wide numbers of this rank's KV heads (ranks share a head when there are too few)."""
    ranks = config.parallel_config.tensor_parallel_size
    total = config.model_config.get_total_num_kv_heads()
    rank = get_tensor_model_parallel_rank()
    first = rank * local if total >= ranks else rank * total // ranks
    return range(first, first + local)


def layers_of(context: Mapping[str, Any]) -> dict[str, Attention]:
    """The attention layers of a model that use this class, by name."""
    return {
        name: layer for name, layer in context.items() if isinstance(getattr(layer, "impl", None), KvantImpl)
    }
