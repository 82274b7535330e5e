"""What a quantised cache is made of: the one object that travels from configuration to every worker."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from kvant.cache.layout import PageLayout
from kvant.errors import ConfigError, FormatError
from kvant.formats import KEY_FORMATS, TILE, VALUE_FORMATS, Format, parse
from kvant.formats.bf16 import BF16

BLOCK_SIZE = 64
"""Tokens in a page by default: larger pages are read faster, smaller ones share more of a prefix."""

MAX_EXACT = 1024
"""Most tokens that sinks or the recent window may keep in 16 bits."""


@dataclass(frozen=True)
class LayerFormats:
    """What one layer stores its keys and values in, where it differs from the model's."""

    layer: int
    key: Format
    value: Format


@dataclass(frozen=True)
class CacheSpec:
    """Formats of keys and values, transforms, page size, and what stays in 16 bits.

    A query at position p reads position j in 16 bits where j < sinks or j > p - window, and from its
    codes elsewhere. `calibration` is the file of calibrated key transforms (instead of the rotation of
    keys) and `calibration_digest` its SHA-256; "" is none.
    """

    key: Format = KEY_FORMATS["int8"]
    value: Format = VALUE_FORMATS["int8"]
    rotate: bool = True
    seed: int = 0
    block_size: int = BLOCK_SIZE
    skip_layers: tuple[int, ...] = ()
    sinks: int = 0
    window: int = 0
    layers: tuple[LayerFormats, ...] = ()
    calibration: str = ""
    calibration_digest: str = ""

    def __post_init__(self) -> None:
        sides = [("key", self.key), ("value", self.value)]
        sides += [side for one in self.layers for side in (("key", one.key), ("value", one.value))]
        for side, fmt in sides:
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
        for name, tokens in (("sinks", self.sinks), ("window", self.window)):
            if not 0 <= tokens <= MAX_EXACT or (name == "sinks" and tokens > self.block_size):
                most = min(MAX_EXACT, self.block_size) if name == "sinks" else MAX_EXACT
                raise ConfigError(f"{name} {tokens}: must be from 0 to {most} tokens")
        numbers = [one.layer for one in self.layers]
        if len({*numbers, *self.skip_layers}) != len(numbers) + len(self.skip_layers):
            raise ConfigError(f"layers {numbers}: names a layer twice, or one that skip_layers names too")
        if bool(self.calibration) != bool(self.calibration_digest):
            raise ConfigError("calibration and calibration_digest: give both, or neither")
        if self.calibration and not self.rotate:
            raise ConfigError("calibration: its key transforms contain the rotation, but rotate is false")

    @property
    def name(self) -> str:
        return f"{self.key.name}/{self.value.name}"

    def layout(self, head_dim: int, num_kv_heads: int) -> PageLayout:
        return PageLayout(self.key, self.value, head_dim, num_kv_heads, self.block_size)

    def of_layer(self, layer: int) -> CacheSpec:
        """What one layer stores; a skipped one 16 bits, through the same kernels."""
        if layer in self.skip_layers:
            return CacheSpec(KEY_FORMATS["bf16"], VALUE_FORMATS["bf16"], False, self.seed, self.block_size)
        own = next((one for one in self.layers if one.layer == layer), None)
        key, value = (own.key, own.value) if own else (self.key, self.value)
        return replace(self, key=key, value=value, layers=())

    def to_json(self) -> dict[str, Any]:
        """A JSON object that `from_json` reads back: the value of `kvant` in --additional-config."""
        return {
            "key": self.key.name,
            "value": self.value.name,
            "rotate": self.rotate,
            "seed": self.seed,
            "block_size": self.block_size,
            "skip_layers": list(self.skip_layers),
            "sinks": self.sinks,
            "window": self.window,
            "layers": {str(one.layer): {"key": one.key.name, "value": one.value.name} for one in self.layers},
            "calibration": self.calibration,
            "calibration_digest": self.calibration_digest,
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
        _only("kvant", data, [f.name for f in fields(cls)])
        key = _format("kvant", data, "key", "int8")
        value = _format("kvant", data, "value", "int8")
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
            sinks=_take(data, "sinks", int, 0),
            window=_take(data, "window", int, 0),
            layers=_layers(_take(data, "layers", dict, {}), key, value),
            calibration=_take(data, "calibration", str, ""),
            calibration_digest=_take(data, "calibration_digest", str, ""),
        )


def rotates(key: Format, value: Format) -> bool:
    """The default: rotate whatever is quantised.

    Codebooks need it, and integer grids gain from it on every model measured, most where keys have
    large channels: int8 on Qwen2.5 is three times closer to 16 bits rotated (README).
    """
    return any(not isinstance(fmt, BF16) for fmt in (key, value))


def _layers(data: dict[str, Any], key: Format, value: Format) -> tuple[LayerFormats, ...]:
    found = []
    for number, formats in data.items():
        where = f"kvant.layers.{number}"
        if not str(number).isdecimal() or not isinstance(formats, dict):
            raise ConfigError(f"{where}: expected a layer number with an object such as {{'key': 'int8'}}")
        _only(where, formats, ["key", "value"])
        found.append(
            LayerFormats(
                int(number),
                _format(where, formats, "key", key.name),
                _format(where, formats, "value", value.name),
            )
        )
    return tuple(sorted(found, key=lambda one: one.layer))


def _only(where: str, data: dict[str, Any], known: list[str]) -> None:
    for name in data:
        if name not in known:
            close = difflib.get_close_matches(str(name), known, 1)
            hint = f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(known)}"
            raise ConfigError(f"{where}.{name}: unknown field{hint}")


def _format(where: str, data: dict[str, Any], side: Literal["key", "value"], default: str) -> Format:
    try:
        return parse(_take(data, side, str, default), side)
    except FormatError as error:
        raise ConfigError(f"{where}: {error}") from None


def _take(data: dict[str, Any], name: str, kind: type, default: Any) -> Any:
    value = data.get(name, default)
    if type(value) is not kind:
        raise ConfigError(f"kvant.{name}: {value!r} is not of type {kind.__name__}")
    return value
