"""What vLLM 0.32 stores besides ours, as bytes of one token in one KV head, keys and values together.

Read from its code, file by file below; they hold for any head size d. A test compares those that vLLM can be
asked for without a GPU with what it says itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Stored:
    """`slot` gives bytes for d, `latent` those of a latent vector (MLA), None where there is none."""

    slot: Callable[[int], int]
    source: str
    latent: Callable[[int], int] | None = None
    boundary: int = 0
    """Layers at either end that stay in 16 bits."""


def _turboquant(key_bits: int, value_bits: int, beside: int) -> Callable[[int], int]:
    """Codes, and `beside` bytes for norm, scale and zero point; rounded up to an even number."""

    def slot(dim: int) -> int:
        size = -(-dim * key_bits // 8) + -(-dim * value_bits // 8) + beside
        return size + size % 2

    return slot


_SHIPPED = "vllm 0.32 quantization/turboquant/config.py; first and last 2 layers in 16 bits"
_ANNOUNCED = (
    "vLLM PR 38479: slots of 196, 136, 120, 104 bytes at d = 128, 2 more beside 3- and 4-bit keys than what "
    "shipped; first and last 2 layers in 16 bits"
)
_SCALES = "vllm 0.32 v1/attention/backends/triton_attn.py: a float32 scale for each side"

STORED: dict[str, Stored] = {
    "bf16": Stored(lambda d: 4 * d, "vllm 0.32 v1/kv_cache_interface.py", lambda d: 2 * d),
    "fp8": Stored(
        lambda d: 2 * d, "vllm 0.32 v1/kv_cache_interface.py; one scale for a whole tensor", lambda d: d
    ),
    "fp8_per_token_head": Stored(lambda d: 2 * (d + 4), _SCALES),
    "int8_per_token_head": Stored(lambda d: 2 * (d + 4), _SCALES),
    "int4_per_token_head": Stored(lambda d: 2 * (d // 2 + 4), _SCALES),
    "turboquant_k8v4": Stored(_turboquant(8, 4, 4), _SHIPPED, boundary=2),
    "turboquant_4bit_nc": Stored(_turboquant(4, 4, 6), _SHIPPED, boundary=2),
    "turboquant_k3v4_nc": Stored(_turboquant(3, 4, 6), _SHIPPED, boundary=2),
    "turboquant_3bit_nc": Stored(_turboquant(3, 3, 6), _SHIPPED, boundary=2),
    "turboquant_3bit_nc@pr38479": Stored(_turboquant(3, 3, 8), _ANNOUNCED, boundary=2),
}
"""By the name of `--kv-cache-dtype`. The published 3.43x of 3 bits on Qwen3-4B is that of the last row."""
