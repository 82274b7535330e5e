"""How a cache is stored: bytes of a token in a layer, and what stays in 16 bits beside the pages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from kvant import recipes
from kvant.cache.exact import kept_pages
from kvant.cache.spec import CacheSpec
from kvant.config.words import near
from kvant.errors import ConfigError, GeometryError
from kvant.formats import KEY_FORMATS
from kvant.kernels.paged import exact_layout
from kvant.plan.geometry import HALF, Layer, Model
from kvant.plan.published import STORED, Stored
from kvant.recipes import preset

BASELINE = "bf16"
DEFAULT = ("bf16", "fp8", "turboquant_3bit_nc", "int8", "lossless", "balanced", "max")


@dataclass(frozen=True)
class Precision(ABC):
    """One way to store a cache."""

    name: str

    @property
    @abstractmethod
    def source(self) -> str:
        """Where its bytes come from."""

    @abstractmethod
    def token_bytes(self, number: int, layer: Layer, count: int) -> int:
        """Bytes of a token in layer `number` of `count`, all its heads; of a rank, if `layer` is a rank's."""

    @abstractmethod
    def in_16_bits(self, number: int, count: int) -> bool:
        """Whether the layer is left as it is."""

    def refusal(self, model: Model) -> str:
        """Why the engine would not serve this model so; empty where it does."""
        return ""

    def kept_bytes(self, model: Model, ranks: int, seqs: int) -> int:
        """Bytes a rank needs for the 16-bit copies of sinks and windows of so many sequences."""
        return 0

    def copied(self, number: int) -> int:
        """Tokens of a request that the layer reads from 16-bit copies."""
        return 0

    def bits(self, model: Model) -> float:
        """Bits of a stored number, all overheads counted, copies in 16 bits not."""
        count = len(model.layers)
        stored = sum(self.token_bytes(n, layer, count) for n, layer in model.owning)
        return 8 * stored / model.elements()


@dataclass(frozen=True)
class Ours(Precision):
    """A Kvant cache: its bytes are those of the pages that the kernels read."""

    spec: CacheSpec
    made: recipes.Recipe | None = None

    @property
    def source(self) -> str:
        return f"kvant {self.spec.name}" + (f", recipe {self.made.digest[:16]}" if self.made else "")

    def token_bytes(self, number: int, layer: Layer, count: int) -> int:
        layout = self.spec.of_layer(number).layout(layer.head_dim, layer.kv_heads)
        return layout.bytes_per_token_head * layer.kv_heads

    def in_16_bits(self, number: int, count: int) -> bool:
        return number in self.spec.skip_layers

    def kept_bytes(self, model: Model, ranks: int, seqs: int) -> int:
        total = 0
        for number, layer in model.owning:
            own, mine = self.spec.of_layer(number), layer.of_rank(ranks)
            if pages := sum(kept_pages(own.sinks, own.window, seqs)):
                total += pages * exact_layout(own.layout(mine.head_dim, mine.kv_heads)).page_bytes
        return total

    def copied(self, number: int) -> int:
        own = self.spec.of_layer(number)
        return own.sinks + own.window

    def refusal(self, model: Model) -> str:
        if model.latent:
            return "Kvant does not store MLA's latent vectors"
        if self.spec.window and len(model.owning) < len(model.layers):
            return "layers read another layer's cache: a recent window in 16 bits is not served"
        try:
            for number, layer in model.owning:
                self.spec.of_layer(number).layout(layer.head_dim, layer.kv_heads)
        except GeometryError as error:
            return str(error)
        return self._other_model(model)

    def _other_model(self, model: Model) -> str:
        if self.made is None:
            return ""
        facts = self.made.facts.model
        made = (facts.layers, facts.kv_heads, facts.head_dim)
        has = (len(model.layers), model.layers[0].kv_heads, model.layers[0].head_dim)
        if made == has:
            return ""
        return f"the recipe is of another model: layers, KV heads, head_dim {made}, this one has {has}"


@dataclass(frozen=True)
class Theirs(Precision):
    """A cache of stock vLLM."""

    stored: Stored

    @property
    def source(self) -> str:
        return self.stored.source

    def token_bytes(self, number: int, layer: Layer, count: int) -> int:
        if self.in_16_bits(number, count):
            return layer.width * HALF
        if layer.latent:
            assert self.stored.latent is not None
            return self.stored.latent(layer.head_dim)
        return layer.kv_heads * self.stored.slot(layer.head_dim)

    def in_16_bits(self, number: int, count: int) -> bool:
        ends = min(self.stored.boundary, count // 2)
        return number < ends or number >= count - ends

    def refusal(self, model: Model) -> str:
        if model.latent and self.stored.latent is None:
            return "vLLM stores MLA's latent vectors in bf16 or fp8 only"
        if self.stored.boundary and any(layer.window for layer in model.layers):
            return "not planned: how vLLM pads its pages beside those of 16-bit windowed layers"
        return ""


def parse(names: Iterable[str], folders: Iterable[Path] = (), block_size: int = 64) -> list[Precision]:
    """Names and recipes, in order, with `bf16`, which all others are compared with, first."""
    found: dict[str, Precision] = {BASELINE: Theirs(BASELINE, STORED[BASELINE])}
    for name in names:
        found.setdefault(name, _named(name, block_size))
    for folder in folders:
        recipe = recipes.load(folder)
        name = (
            f"{recipe.facts.name} ({recipe.facts.model.name})"
            if recipe.facts.name in found
            else recipe.facts.name
        )
        found[name] = Ours(name, replace(recipe.spec, block_size=block_size), recipe)
    return list(found.values())


def _named(name: str, block_size: int) -> Precision:
    if name in STORED:
        return Theirs(name, STORED[name])
    if name in preset.names():
        return Ours(name, preset.find(name).spec(block_size=block_size))
    key, _, value = name.partition("/")
    if value or key in KEY_FORMATS:
        return Ours(name, CacheSpec.from_json({"key": key, "value": value or key, "block_size": block_size}))
    known = (*STORED, *preset.names())
    close = near(name, known)
    hint = f"did you mean {close}? " if close else ""
    raise ConfigError(
        f"--precision: {name!r} is none; {hint}known: {', '.join(known)}, or KEY/VALUE such as int8/codebook4"
    )
