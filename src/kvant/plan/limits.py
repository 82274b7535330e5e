"""What to write into kvant.yaml, or give vLLM, so that a service takes no more than it can hold."""

from __future__ import annotations

import math
from dataclasses import dataclass

from kvant.config.docs import written
from kvant.plan.contexts import Contexts
from kvant.plan.fit import Fit
from kvant.plan.precision import BASELINE, Ours, Precision
from kvant.plan.room import Room
from kvant.plan.speed import Speed
from kvant.recipes import preset


@dataclass(frozen=True)
class Limits:
    """In Kvant's words; vLLM's own are max_num_seqs, num_gpu_blocks_override, max_model_len."""

    max_batch: int
    max_concurrency: int
    max_cache_blocks: int
    max_context: int
    alert_usage: float
    """Of vllm:kv_cache_usage_perc, for minutes."""

    def lines(self, precision: Precision, room: Room) -> list[str]:
        """For kvant.yaml; where the cache is vLLM's own, as its flags."""
        if not isinstance(precision, Ours):
            return [
                f"--kv-cache-dtype {'auto' if precision.name == BASELINE else precision.name} "
                f"--block-size {room.block_size}",
                f"--max-model-len {self.max_context} --max-num-seqs {self.max_batch} "
                f"--num-gpu-blocks-override {self.max_cache_blocks}",
                f"at most {self.max_concurrency:,} requests in flight, by whatever stands before it",
            ]
        return [
            "serving:",
            f"  max_context: {self.max_context}",
            f"  max_batch: {self.max_batch}",
            f"  max_concurrency: {self.max_concurrency}",
            "kv_cache:",
            *_stored(precision),
            f"  block_size: {room.block_size}",
            f"  max_cache_blocks: {self.max_cache_blocks}",
        ]


def _stored(precision: Ours) -> list[str]:
    if precision.made:
        return [f"  recipe: {written(str(precision.made.folder))}"]
    return [f"  preset: {precision.name}"] if precision.name in preset.names() else []


def limits(found: Fit, quick: Speed, contexts: Contexts, room: Room) -> Limits:
    """The queue holds what begins within `room.wait` seconds at the speed that bandwidth allows."""
    starts = quick.tokens / contexts.answer
    queue = math.ceil(starts * room.wait)
    return Limits(
        max_batch=found.max_num_seqs,
        max_concurrency=found.max_num_seqs + queue,
        max_cache_blocks=found.num_blocks,
        max_context=contexts.longest,
        alert_usage=found.watermark,
    )
