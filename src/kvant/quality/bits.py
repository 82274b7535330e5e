"""Bits of a stored value: of the codes, and with what stays in 16 bits counted."""

from __future__ import annotations

from kvant.cache.spec import CacheSpec


def stored(spec: CacheSpec, layers: int, head_dim: int, kv_heads: int) -> float:
    """Mean over the layers, keys and values: codes, scales and padding; a skipped layer counts 16."""
    each = (spec.of_layer(n).layout(head_dim, kv_heads).effective_bits for n in range(layers))
    return sum(each) / layers


def effective(bits: float, exact: float, context: int) -> float:
    """With `exact` tokens of the context in 16 bits: b + (16 - b) min(N, exact) / N."""
    return bits + (16 - bits) * min(context, exact) / context
