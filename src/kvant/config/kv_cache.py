"""`kv_cache`: how keys and values are stored, and how much memory they get."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from kvant.cache.spec import BLOCK_SIZE, CacheSpec, rotates
from kvant.config.section import Section, Whole
from kvant.errors import ConfigError
from kvant.formats import parse

Codec = Literal["auto", "int", "codebook", "polar", "trellis"]
Bits = Annotated[Literal[2, 3, 4, 8, 16], Whole]
Layer = Annotated[int, Field(strict=True, ge=0, le=100_000)]

QUANT_FIELDS = (
    "codec",
    "key_bits",
    "key_residual_bits",
    "value_bits",
    "asymmetric",
    "scale",
    "rotate_enable",
    "rotate_seed",
    "skip_layers",
)
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
    codec: Codec = Field(
        default="auto",
        description="auto: 16 bits are bf16, 8 are int8, 2 to 4 a codebook; int has 8 and 4 bits; "
        "polar has 3.875 bits and is written as 4; trellis has 4, 3 and 2, closer than a codebook "
        "and slower to write.",
    )
    key_bits: Bits = Field(default=8, description="Bits of a key element.")
    key_residual_bits: Annotated[Literal[0, 1], Whole] = Field(
        default=0,
        description="1 adds a Johnson-Lindenstrauss sign bit to codebook keys (unbiased inner product).",
    )
    value_bits: Bits = Field(default=8, description="Bits of a value element.")
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

    @property
    def key_format(self) -> str:
        """The name of the keys' format, e.g. `codebook3+jl`."""
        return self._format(self.key_bits) + ("+jl" if self.key_residual_bits else "")

    @property
    def value_format(self) -> str:
        """The name of the values' format, e.g. `codebook4`."""
        return self._format(self.value_bits)

    def to_spec(self) -> CacheSpec:
        """What the engine is told; `ConfigError` when nothing is quantised."""
        if not self.enable_quant:
            raise ConfigError("kv_cache.enable_quant: false has no packed cache to describe")
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
