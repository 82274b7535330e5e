"""What a worker really runs, read from its tensors: the evidence the start-up check goes by.

vLLM mixes this class into its worker (`--worker-extension-cls kvant.engine.report.WorkerReport`)
and calls it by name from the API process.
"""

from __future__ import annotations

from typing import Any

import torch

from kvant.engine.plugin import register
from kvant.engine.timing import TIMES, watch

# Whoever names this class wants our backend: VLLM_PLUGINS must not keep it away.
register()


class WorkerReport:
    """Adds `kvant_report`, `kvant_times` and `kvant_drift` to a vLLM worker."""

    def kvant_times(self) -> dict[str, float]:
        """Seconds that steps and our part of them took; counted from the first call on."""
        watch(self.model_runner)  # type: ignore[attr-defined]
        return TIMES.seconds()

    def kvant_drift(self) -> dict[str, Any] | None:
        """How far errors are from the calibrated ones (`Watch.report`); None without ranges."""
        from kvant.engine.impl import layers_of

        context = self.vllm_config.compilation_config.static_forward_context  # type: ignore[attr-defined]
        watch = next((layer.impl.watch for layer in layers_of(context).values()), None)
        return watch.report() if watch is not None and watch.calibrated else None

    def kvant_report(self) -> dict[str, Any]:
        """Every attention layer of this rank, as it is: JSON-able, no tensors."""
        from vllm.model_executor.layers.attention import Attention

        context = self.vllm_config.compilation_config.static_forward_context  # type: ignore[attr-defined]
        layers = [_layer(name, layer) for name, layer in context.items() if isinstance(layer, Attention)]
        storages = {
            layer.kv_cache.untyped_storage().data_ptr(): layer.kv_cache.untyped_storage().nbytes()
            for layer in context.values()
            if isinstance(layer, Attention)
        }
        return {
            "rank": self.rank,  # type: ignore[attr-defined]
            "threads": torch.get_num_threads(),
            "layers": layers,
            "kv_bytes": sum(storages.values()),
        }


def _layer(name: str, layer: Any) -> dict[str, Any]:
    from kvant.engine.impl import KvantImpl

    cache, impl = layer.kv_cache, layer.impl
    entry: dict[str, Any] = {
        "name": name,
        "impl": type(impl).__name__,
        "shares": layer.kv_sharing_target_layer_name,
        "dtype": str(cache.dtype).removeprefix("torch."),
        "shape": list(cache.shape),
        "page_bytes": cache.stride(0) * cache.element_size(),
    }
    if isinstance(impl, KvantImpl):
        layout = impl.paged.layout
        entry |= {
            "key": layout.key.name,
            "value": layout.value.name,
            "head_dim": layout.head_dim,
            "kv_heads": layout.num_kv_heads,
            "heads": list(impl.heads),
            "block_size": layout.block_size,
            "bytes_per_token_head": layout.bytes_per_token_head,
            "window": impl.window,
            "exact": [impl.spec.sinks, impl.spec.window] if impl.paged.keeps else [0, 0],
            "exact_bytes": 0 if impl.exact_pages is None else impl.exact_pages.nbytes,
            "kernel": impl.paged.kernel.name,
            "why_not_better": impl.paged.why_not_better,
            "identity": impl.identity.to_json(),
            "digest": impl.identity.digest,
        }
    return entry
