"""What a quantised cache cannot serve: refused by name at start, never served wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvant.errors import EngineError

if TYPE_CHECKING:
    from vllm.config import VllmConfig

    from kvant.cache.spec import CacheSpec


def check(config: VllmConfig, spec: CacheSpec) -> None:
    """Raise EngineError that lists everything in the configuration that excludes a packed cache."""
    reasons = list(_reasons(config))
    layers = config.model_config.get_total_num_hidden_layers()
    reasons += [
        f"skip_layers names layer {n}, but the model has layers 0 to {layers - 1}"
        for n in spec.skip_layers
        if n >= layers
    ]
    if reasons:
        raise EngineError("a Kvant cache cannot be served with this configuration: " + "; ".join(reasons))


def _reasons(config: VllmConfig) -> list[str]:
    model, parallel, cache = config.model_config, config.parallel_config, config.cache_config
    found = {
        f"kv_cache_dtype {cache.cache_dtype!r} would quantise a second time: leave it at 'auto'": (
            cache.cache_dtype not in ("auto", "bfloat16", "float16")
        ),
        "kv_transfer_config: KV connectors move raw pages without their identity": (
            config.kv_transfer_config is not None
        ),
        "multi-head latent attention (MLA) stores no per-head keys and values": model.use_mla,
        "recurrent (Mamba, linear attention) layers share pages with their state": model.is_hybrid,
        "an encoder-decoder model has non-causal attention": model.is_encoder_decoder,
        "kv_sharing_fast_prefill rewrites the attention metadata": cache.kv_sharing_fast_prefill,
        "decode context parallelism splits a page over ranks": parallel.decode_context_parallel_size > 1,
        "prefill context parallelism splits a page over ranks": parallel.prefill_context_parallel_size > 1,
    }
    return [reason for reason, present in found.items() if present]
