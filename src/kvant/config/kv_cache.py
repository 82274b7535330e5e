"""`kv_cache`: how keys and values are stored, and how much memory they get."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from kvant.cache.spec import BLOCK_SIZE, CacheSpec, rotates
from kvant.config.section import Section, Text, Whole
from kvant.errors import ConfigError
from kvant.formats import parse

Codec = Literal["auto", "int", "codebook", "polar", "trellis"]
Bits = Annotated[Literal[2, 3, 4, 8, 16], Whole]
Layer = Annotated[int, Field(strict=True, ge=0, le=100_000)]

Preset = Literal["lossless", "balanced", "max", "int8", "founding"]
"""The files of kvant/recipes/presets."""

DEFAULT_PRESET: Preset = "lossless"
"""What a user gets who says nothing about the cache."""

WIDTH = 8
"""Bits of keys or values where formats are named and theirs are not."""

FORMAT_FIELDS = (
    "codec",
    "key_bits",
    "key_residual_bits",
    "value_bits",
    "asymmetric",
    "scale",
    "rotate_enable",
    "rotate_seed",
)
"""The fields that say themselves what a preset or a recipe says otherwise."""

QUANT_FIELDS = ("preset", "recipe", *FORMAT_FIELDS, "skip_layers")
"""The fields that mean nothing when the cache is not quantised."""


def _distinct(layers: tuple[int, ...]) -> tuple[int, ...]:
    twice = next((n for n in layers if layers.count(n) > 1), None)
    if twice is not None:
        raise PydanticCustomError("layers", "names layer {layer} twice", {"layer": twice})
    return layers


class KVCache(Section):
    """How keys and values are stored, and how much memory they get."""

    enable_quant: bool = Field(
        default=True, description="Packed low-bit pages; false serves vLLM's own 16-bit cache (the baseline)."
    )
    preset: Preset | None = Field(
        default=DEFAULT_PRESET,
        description="A named choice of formats, calibrated at the first start where it needs that; "
        "null where a recipe is given or the fields below name the formats.",
    )
    recipe: Text | None = Field(
        default=None,
        description="Folder of a recipe (`kvant calibrate`) instead of a preset, pinned to its model.",
    )
    codec: Codec = Field(
        default="auto",
        description="auto: 16 bits are bf16, 8 are int8, 2 to 4 a codebook; int has 8 and 4 bits; "
        "polar has 3.875 bits and is written as 4; trellis has 4, 3 and 2, closer than a codebook "
        "and slower to write.",
    )
    key_bits: Bits | None = Field(
        default=None, description="Bits of a key element; null is 8 where another field names formats."
    )
    key_residual_bits: Annotated[Literal[0, 1], Whole] = Field(
        default=0,
        description="1 adds a Johnson-Lindenstrauss sign bit to codebook keys (unbiased inner product).",
    )
    value_bits: Bits | None = Field(
        default=None, description="Bits of a value element; null is 8 where another field names formats."
    )
    asymmetric: bool = Field(default=False, description="int only: store a minimum beside the scale.")
    scale: Literal["bf16", "byte"] = Field(
        default="bf16", description="Scale of a codebook vector: 16 bits, or one byte (2^(e/8))."
    )
    rotate_enable: bool | None = Field(
        default=None,
        description="Rotate before storing; null rotates whatever is quantised.",
    )
    rotate_seed: int = Field(default=0, ge=0, le=2**63 - 1, description="Seed of the rotation.")
    block_size: int = Field(
        default=BLOCK_SIZE, ge=16, le=1024, multiple_of=16, description="Tokens in a page."
    )
    max_cache_blocks: int | None = Field(
        default=None,
        ge=2,
        le=2**40,
        description="Pages in the cache; null takes as many as memory_gib holds.",
    )
    memory_gib: float | None = Field(
        default=None,
        gt=0,
        le=1_048_576,
        description="Memory of the cache in GiB; null is 1 on CPU and what vLLM finds free on a GPU.",
    )
    skip_layers: Annotated[tuple[Layer, ...], AfterValidator(_distinct)] = Field(
        default=(), strict=False, description="Layers that stay in 16 bits, counted from 0."
    )

    @model_validator(mode="before")
    @classmethod
    def _formats_are_no_preset(cls, data: Any) -> Any:
        """Whoever names formats or a recipe, or wants none, need not say that there is no preset."""
        if not isinstance(data, dict) or "preset" in data:
            return data
        named = data.get("recipe") is not None or data.get("enable_quant") is False
        named = named or any(data.get(name, default) != default for name, default in _format_defaults())
        return {**data, "preset": None} if named else data

    def bits(self, side: str) -> int:
        """Bits of `key` or `value` elements, where the fields name the formats."""
        bits: int = getattr(self, f"{side}_bits") or WIDTH
        return bits

    @property
    def key_format(self) -> str:
        """The name of the keys' format, e.g. `codebook3+jl`."""
        return self._format(self.bits("key")) + ("+jl" if self.key_residual_bits else "")

    @property
    def value_format(self) -> str:
        """The name of the values' format, e.g. `codebook4`."""
        return self._format(self.bits("value"))

    def to_spec(self) -> CacheSpec:
        """What the named formats tell the engine; `ConfigError` where none are named."""
        if not self.enable_quant:
            raise ConfigError("kv_cache.enable_quant: false has no packed cache to describe")
        if self.preset or self.recipe:
            raise ConfigError(f"kv_cache.{'recipe' if self.recipe else 'preset'}: is resolved with the model")
        key, value = parse(self.key_format, "key"), parse(self.value_format, "value")
        return CacheSpec(
            key=key,
            value=value,
            rotate=rotates(key, value) if self.rotate_enable is None else self.rotate_enable,
            seed=self.rotate_seed,
            block_size=self.block_size,
            skip_layers=self.skip_layers,
        )

    def _format(self, bits: int) -> str:
        match self.codec_of(bits):
            case "bf16":
                return "bf16"
            case "int":
                return f"int{bits}" + ("-asym" if self.asymmetric else "")
            case "codebook":
                return f"codebook{bits}" + ("-byte" if self.scale == "byte" else "")
            case "trellis":
                return f"trellis{bits}"
            case _:
                return "polar"

    def codec_of(self, bits: int) -> str:
        """The codec that stores a side of so many bits: `auto` decided, the others as they are."""
        if self.codec != "auto":
            return self.codec
        return {16: "bf16", 8: "int"}.get(bits, "codebook")


def _format_defaults() -> list[tuple[str, Any]]:
    return [(name, KVCache.model_fields[name].default) for name in FORMAT_FIELDS]
