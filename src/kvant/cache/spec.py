"""What a quantised cache is made of: the one object that travels from configuration to every worker."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, fields
from typing import Any

from kvant.cache.layout import PageLayout
from kvant.errors import ConfigError, FormatError
from kvant.formats import KEY_FORMATS, TILE, VALUE_FORMATS, Format, parse
from kvant.formats.bf16 import BF16

BLOCK_SIZE = 64
"""Tokens in a page by default: larger pages are read faster, smaller ones share more of a prefix."""


@dataclass(frozen=True)
class CacheSpec:
    """Formats of keys and values, rotation, page size, and the layers that stay in 16 bits."""

    key: Format = KEY_FORMATS["int8"]
    value: Format = VALUE_FORMATS["int8"]
    rotate: bool = True
    seed: int = 0
    block_size: int = BLOCK_SIZE
    skip_layers: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for side, fmt in (("key", self.key), ("value", self.value)):
            if fmt.needs_rotation and not self.rotate:
                raise ConfigError(
                    f"{side} format {fmt.name} is made for rotated vectors, but rotate is false: "
                    "set rotate to true, or choose an int format"
                )
        if self.block_size <= 0 or self.block_size % TILE:
            raise ConfigError(f"block_size {self.block_size}: must be a positive multiple of {TILE}")
        if not 0 <= self.seed < 2**63:
            raise ConfigError(f"seed {self.seed}: must be from 0 to 2^63 - 1")
        if len(set(self.skip_layers)) != len(self.skip_layers) or any(n < 0 for n in self.skip_layers):
            raise ConfigError(f"skip_layers {list(self.skip_layers)}: must be distinct layer numbers from 0")

    @property
    def name(self) -> str:
        return f"{self.key.name}/{self.value.name}"

    def layout(self, head_dim: int, num_kv_heads: int) -> PageLayout:
        return PageLayout(self.key, self.value, head_dim, num_kv_heads, self.block_size)

    def kept(self) -> CacheSpec:
        """The 16-bit spec of skipped layers, through the same kernels."""
        return CacheSpec(KEY_FORMATS["bf16"], VALUE_FORMATS["bf16"], False, self.seed, self.block_size)

    def to_json(self) -> dict[str, Any]:
        """A JSON object that `from_json` reads back: the value of `kvant` in --additional-config."""
        return {
            "key": self.key.name,
            "value": self.value.name,
            "rotate": self.rotate,
            "seed": self.seed,
            "block_size": self.block_size,
            "skip_layers": list(self.skip_layers),
        }

    @classmethod
    def from_json(cls, data: Any) -> CacheSpec:
        """Strict: unknown names, wrong types and contradictions raise `ConfigError` naming the field.

        `rotate` may be left out: then `rotates` decides.
        """
        if not isinstance(data, dict):
            raise ConfigError(
                f"kvant: expected an object such as {{'key': 'int8', 'value': 'int8'}}, got {data!r}"
            )
        known = [f.name for f in fields(cls)]
        for name in data:
            if name not in known:
                close = difflib.get_close_matches(str(name), known, 1)
                hint = f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(known)}"
                raise ConfigError(f"kvant.{name}: unknown field{hint}")
        try:
            key = parse(_take(data, "key", str, "int8"), "key")
            value = parse(_take(data, "value", str, "int8"), "value")
        except FormatError as error:
            raise ConfigError(f"kvant: {error}") from None
        skip = _take(data, "skip_layers", list, [])
        if not all(type(n) is int for n in skip):
            raise ConfigError(f"kvant.skip_layers: {skip!r} is not a list of layer numbers")
        return cls(
            key=key,
            value=value,
            rotate=_take(data, "rotate", bool, rotates(key, value)),
            seed=_take(data, "seed", int, 0),
            block_size=_take(data, "block_size", int, BLOCK_SIZE),
            skip_layers=tuple(skip),
        )


def rotates(key: Format, value: Format) -> bool:
    """The default: rotate whatever is quantised.

    Codebooks need it, and integer grids gain from it on every model measured, most where keys have
    large channels: int8 on Qwen2.5 is three times closer to 16 bits rotated (README).
    """
    return any(not isinstance(fmt, BF16) for fmt in (key, value))


def _take(data: dict[str, Any], name: str, kind: type, default: Any) -> Any:
    value = data.get(name, default)
    if type(value) is not kind:
        raise ConfigError(f"kvant.{name}: {value!r} is not of type {kind.__name__}")
    return value
