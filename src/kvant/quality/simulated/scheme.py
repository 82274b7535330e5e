"""How a simulated cache stores keys and values: transform, codes, and what stays in 16 bits.

Our own specs (`spec.py`) and the peers of the literature (`peers/`) are the same kind of thing here:
for each layer a linear transform, a function that says how the vectors come back from their codes, and
a rule which tokens a query reads in 16 bits instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import torch

from kvant.quality.bits import effective

Store = Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
"""Keys and values (KV heads, tokens, D) float32, transformed, to what is read back from their codes."""

Side = Literal["key", "value"]


@dataclass(frozen=True)
class Shape:
    """What a scheme must know of a model."""

    layers: int
    query_heads: int
    kv_heads: int
    head_dim: int


@dataclass(frozen=True)
class Keep:
    """Tokens read in 16 bits: the first `sinks`, the newest `window`, and the unfinished block of `block`."""

    sinks: int = 0
    window: int = 0
    block: int = 0

    def mask(self, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        """(queries, keys) from their positions; causality is left to the caller."""
        p, j = query[:, None], key[None, :]
        kept = (j < self.sinks) | (j > p - self.window)
        return kept | (j >= p // self.block * self.block) if self.block else kept

    @property
    def tokens(self) -> float:
        """How many of a long context: an unfinished block holds half of its tokens on average."""
        return self.sinks + self.window + (self.block + 1) / 2 * bool(self.block)


@dataclass(frozen=True)
class Transform:
    """What the vectors of a layer are multiplied with before they are stored; None is left as it is.

    mean and level (H, 1, D) are taken from keys and values first. key, query, value and output are
    (H, D, D): a stored key is (k - mean) key, its query q query, a stored value (v - level) value, and
    o output + level what attention gives back.
    """

    mean: torch.Tensor | None = None
    key: torch.Tensor | None = None
    query: torch.Tensor | None = None
    value: torch.Tensor | None = None
    output: torch.Tensor | None = None
    level: torch.Tensor | None = None


@dataclass(frozen=True)
class Layer:
    """One layer of a simulated cache."""

    store: Store
    transform: Transform = Transform()
    keys: Keep = Keep()
    values: Keep = Keep()


def sixteen(x: torch.Tensor) -> torch.Tensor:
    """What a 16-bit cache gives back of float32 vectors."""
    return x.bfloat16().float()


EXACT = Layer(lambda key, value: (sixteen(key), sixteen(value)))
"""The 16-bit control."""


@dataclass(frozen=True)
class Scheme:
    """A whole cache: `layer(n)` of layer n, and the bits of a stored value, codes and scales counted."""

    name: str
    layer: Callable[[int], Layer]
    bits: float
    sinks: int = 0
    window: int = 0
    kept: float = 0.0
    """Mean number of tokens of a long context that are read in 16 bits."""

    def effective_bits(self, context: int) -> float:
        return effective(self.bits, self.kept, context)


def uniform(name: str, bits: float, layer: Callable[[int], Layer]) -> Scheme:
    """A scheme whose layers all keep the same tokens: what it keeps is read from layer 0."""
    first = layer(0)
    return Scheme(
        name, layer, bits, first.keys.sinks, first.keys.window, (first.keys.tokens + first.values.tokens) / 2
    )


CONTROL = uniform("bf16/bf16", 16.0, lambda number: EXACT)


def only(scheme: Scheme, layer: int, side: Side) -> Scheme:
    """The same cache with one side of one layer quantised, and everything else in 16 bits."""
    full = scheme.layer(layer)

    def store(key: torch.Tensor, value: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        coded_key, coded_value = full.store(key, value)
        return (coded_key, sixteen(value)) if side == "key" else (sixteen(key), coded_value)

    one = replace(full, store=store)
    return replace(scheme, layer=lambda number: one if number == layer else EXACT)
