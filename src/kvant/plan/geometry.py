"""What a model keeps for every token: layers, their heads, and how far back each looks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

HALF = 2
"""Bytes of an element in 16 bits."""


@dataclass(frozen=True)
class Layer:
    """The cache of one layer. `window` is 0 where it looks at the whole context.

    A latent layer (DeepSeek's MLA) stores one vector of `head_dim` a token, which is key and value at once.
    """

    kv_heads: int
    head_dim: int
    window: int = 0
    latent: bool = False
    shared: bool = False
    """Reads the pages of an earlier layer and has none (Gemma 3n)."""

    @property
    def width(self) -> int:
        """Numbers that attention reads of a token: keys and values, or the latent vector."""
        return (1 if self.latent else 2) * self.kv_heads * self.head_dim

    @property
    def elements(self) -> int:
        """Those that the layer itself stores."""
        return 0 if self.shared else self.width

    def of_rank(self, ranks: int) -> Layer:
        """What one of `ranks` tensor-parallel ranks stores; heads are copied where there are too few."""
        heads = 1 if self.latent else max(1, self.kv_heads // ranks)
        return Layer(heads, self.head_dim, self.window, self.latent, self.shared)


@dataclass(frozen=True)
class Experts:
    """A mixture: of `count` experts a token asks `chosen`, each of `parameters` in all layers together."""

    count: int
    chosen: int
    parameters: int


@dataclass(frozen=True)
class Model:
    """All that a plan needs to know of a model. `weight_bytes` is of all its weights."""

    name: str
    layers: tuple[Layer, ...]
    hidden: int
    intermediate: int
    heads: int
    head_dim: int
    vocabulary: int
    max_context: int
    parameters: int
    weight_bytes: int
    weights_from: str
    """Where weight_bytes comes from: the files, or the parameters counted from the shape."""
    experts: Experts | None = None

    @property
    def owning(self) -> tuple[tuple[int, Layer], ...]:
        """Number and layer of those that have pages of their own."""
        return tuple((n, layer) for n, layer in enumerate(self.layers) if not layer.shared)

    @property
    def mixed(self) -> bool:
        """Whether layers look back over different distances."""
        return len({layer.window for _, layer in self.owning}) > 1

    @property
    def latent(self) -> bool:
        return any(layer.latent for layer in self.layers)

    def elements(self) -> int:
        """Numbers stored for a token by all layers."""
        return sum(layer.elements for layer in self.layers)

    def bytes_read(self, requests: float) -> float:
        """Bytes of weights that one decode step of so many requests reads.

        Of a mixture the experts that nobody asks are not read: with e experts and k asked, n requests
        touch e (1 - (1 - k/e)^n) of them, if asked at random. The input embedding is a look-up, which an
        untied one's bytes over-count by a per cent or so.
        """
        if not self.experts:
            return self.weight_bytes
        one = self.experts
        per_parameter = self.weight_bytes / self.parameters
        missed: float = (1 - one.chosen / one.count) ** max(requests, 1)
        return (self.parameters - one.count * missed * one.parameters) * per_parameter


def alike(count: int, layer: Layer) -> tuple[Layer, ...]:
    return (layer,) * count


def interleaved(kinds: Sequence[bool], full: Layer, window: int) -> tuple[Layer, ...]:
    """Layers of one shape, those whose kind is true with a window."""
    local = Layer(full.kv_heads, full.head_dim, window)
    return tuple(local if kind else full for kind in kinds)
