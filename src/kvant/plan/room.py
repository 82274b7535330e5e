"""What a plan is made for: devices, how vLLM is started on them, and what is assumed beside."""

from __future__ import annotations

from dataclasses import dataclass

from kvant.plan.geometry import HALF, Model
from kvant.plan.hardware import Device

GIB = 1 << 30
SCORES = 6
"""Bytes of a logit while a token is sampled: 16 bits as computed, 32 bits as sampled."""


@dataclass(frozen=True)
class Room:
    """`ranks` devices, one tensor-parallel rank on each. Every assumption has an option of `kvant plan`."""

    device: Device
    ranks: int = 1
    utilisation: float = 0.92
    """Share of a device's memory that vLLM takes (its own default)."""
    overhead_gib: float = 1.5
    """Of a rank: the driver's context, communication buffers, captured graphs."""
    kv_memory: int | None = None
    """Bytes a rank's cache is given (kv_cache.memory_gib, --kv-cache-memory-bytes); None is what is left."""
    block_size: int = 64
    step_tokens: int = 2048
    """vLLM's max_num_batched_tokens."""
    margin: float = 0.25
    """Share of the pool that the recommended limits leave free."""
    risk: float = 2.33
    """Standard deviations of the total length that are planned for: 2.33 is one in a hundred."""
    efficiency: float = 0.6
    """Share of the bandwidth that a decode step reaches."""
    wait: float = 10.0
    """Seconds that the last request in the queue waits to begin."""

    @property
    def in_flight(self) -> int:
        """Tokens that are scheduled and not settled: of two steps where scheduling is asynchronous (GPUs)."""
        return self.step_tokens * (2 if self.device.kind == "gpu" else 1)

    def weights(self, model: Model) -> int:
        """Bytes of weights on a rank."""
        return -(-model.weight_bytes // self.ranks)

    def activations(self, model: Model, seqs: int) -> int:
        """Estimate of a rank's peak beside weights and cache, as vLLM's profiling run would find it.

        Of every token of a step: the residual twice, its norm and the output of a layer; the two halves of
        the MLP; queries, keys and values with their rotated copies. And the logits of every sequence.
        """
        token = 4 * model.hidden + (2 * model.intermediate + 4 * model.heads * model.head_dim) / self.ranks
        return int(self.step_tokens * token * HALF + seqs * model.vocabulary * SCORES)

    def memory(self) -> int:
        """Bytes of a device that vLLM takes."""
        return int(self.device.memory_gib * GIB * self.utilisation)

    def pool(self, model: Model, seqs: int) -> int:
        """Bytes of a rank that are left for the cache, its 16-bit copies included; may be negative."""
        if self.kv_memory is not None:
            return self.kv_memory
        used = self.weights(model) + self.activations(model, seqs) + int(self.overhead_gib * GIB)
        return self.memory() - used
