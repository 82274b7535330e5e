"""What a step tells the kernels: the sequences of the batch, checked once for all layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from vllm.config import get_layers_from_vllm_config
from vllm.model_executor.layers.attention import Attention
from vllm.v1.attention.backend import AttentionMetadata, AttentionMetadataBuilder, CommonAttentionMetadata

from kvant.engine import seeds
from kvant.engine.announce import announce
from kvant.engine.scratch import SCRATCH, STAGING
from kvant.errors import EngineError
from kvant.kernels import Batch, Exact
from kvant.kernels.paged import exact_layout

if TYPE_CHECKING:
    from vllm.config import VllmConfig
    from vllm.v1.kv_cache_interface import AttentionSpec


@dataclass
class KvantMetadata(AttentionMetadata):
    """One step's batch for one group of layers, and the scratch that start-up reserved."""

    batch: Batch
    exact: Exact | None
    scratch: torch.Tensor
    num_actual_tokens: int


class KvantMetadataBuilder(AttentionMetadataBuilder[KvantMetadata]):
    """Made once for each group of layers, after the model is loaded: the place to reserve scratch."""

    def __init__(
        self,
        kv_cache_spec: AttentionSpec,
        layer_names: list[str],
        vllm_config: VllmConfig,
        device: torch.device,
    ) -> None:
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)
        if device.type == "cpu":
            seeds.mend()
        scheduler = vllm_config.scheduler_config
        layers = list(get_layers_from_vllm_config(vllm_config, Attention, layer_names).values())
        for layer in layers:
            paged = layer.impl.prepare(kv_cache_spec)
            SCRATCH.reserve(
                paged.workspace_bytes(
                    layer.num_heads,
                    scheduler.max_num_batched_tokens,
                    vllm_config.model_config.max_model_len,
                    scheduler.max_num_seqs,
                )
            )
        self._exact = layer.impl.exact_map(scheduler.max_num_seqs)
        if self._exact is not None:
            self._page_bytes = exact_layout(layer.impl.paged.layout).page_bytes
            STAGING.reserve(self._exact.staged(scheduler.max_num_batched_tokens) * self._page_bytes)
            for layer in layers:
                layer.impl.keep(self._exact.kept)
        announce(vllm_config.compilation_config.static_forward_context)

    def build(
        self, common_prefix_len: int, common_attn_metadata: CommonAttentionMetadata, fast_build: bool = False
    ) -> KvantMetadata:
        common = common_attn_metadata
        if common.causal is not True:
            raise EngineError("a Kvant cache serves causal attention only; this model asked for another mask")
        batch = Batch(
            common.block_table_tensor[: common.num_reqs],
            common.query_start_loc[: common.num_reqs + 1],
            common.seq_lens[: common.num_reqs],
        )
        return KvantMetadata(batch, self._exact_of(common), SCRATCH.get(), common.num_actual_tokens)

    def _exact_of(self, common: CommonAttentionMetadata) -> Exact | None:
        if self._exact is None:
            return None
        step = self._exact.step(
            common.block_table_tensor.numpy(),
            common.query_start_loc_cpu[: common.num_reqs + 1].tolist(),
            common.seq_lens[: common.num_reqs].tolist(),
        )
        return Exact(step, STAGING.get(), self._page_bytes, self._exact.kept)
