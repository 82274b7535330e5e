"""What is allowed, and probably not meant: shown at start, never fatal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvant.config.settings import Settings


MEASURED = "smollm2"
"""The models whose uncalibrated low-bit keys are known to hold (README)."""


def warnings(s: Settings) -> Iterator[str]:
    """One line for each doubt; it names the field and the mend."""
    cache, serving = s.kv_cache, s.serving
    if cache.enable_quant and not cache.preset and not cache.recipe:
        yield from _quality(s)
    blocks = cache.max_cache_blocks
    if blocks and serving.max_context and serving.max_context > blocks * cache.block_size:
        need = -(-serving.max_context // cache.block_size)
        yield (
            f"kv_cache.max_cache_blocks: {blocks} pages of {cache.block_size} tokens hold less than one "
            f"request of serving.max_context {serving.max_context}, which needs {need}"
        )
    if serving.max_concurrency < serving.max_batch:
        yield (
            f"serving.max_concurrency: {serving.max_concurrency} requests never fill "
            f"serving.max_batch {serving.max_batch}"
        )


def _quality(s: Settings) -> Iterator[str]:
    cache = s.kv_cache
    key_bits = cache.bits("key") + cache.key_residual_bits
    if cache.bits("value") > key_bits:
        yield (
            f"kv_cache.value_bits: {cache.bits('value')} bits for values and {key_bits} for keys; "
            "keys need at least as many bits as values"
        )
    if cache.key_residual_bits:
        yield (
            "kv_cache.key_residual_bits: the sign bit makes scores unbiased but noisier: keys of 3+1 bits "
            "were 1.7 to 6.4 times further from the unquantised model than keys of 4 plain bits"
        )
    spec = cache.to_spec()
    if key_bits < 8 and MEASURED not in s.model.path.lower():
        yield (
            f"kv_cache.key_bits: {cache.bits('key')}-bit keys without calibration fail on models with biased "
            "keys (Qwen2.5 is one); measure before serving, or use key_bits: 8"
        )
    if cache.rotate_seed and not spec.rotate:
        yield "kv_cache.rotate_seed: has no effect, because nothing is rotated; set rotate_enable: true"
