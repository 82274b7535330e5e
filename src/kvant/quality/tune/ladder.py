"""The formats that a layer may be stored in, from the narrowest to the widest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from kvant.errors import ConfigError
from kvant.formats import TILE, Format, parse
from kvant.formats.bf16 import BF16


@dataclass(frozen=True)
class Ladder:
    """Rungs of one model, each for keys and for values; `bytes[r]` is one vector of `head_dim` at rung r."""

    formats: tuple[Format, ...]
    head_dim: int

    @cached_property
    def bytes(self) -> tuple[int, ...]:
        return tuple(one.tile_bytes(self.head_dim) // TILE for one in self.formats)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(one.name for one in self.formats)

    def kept(self, rung: int) -> bool:
        """Whether this rung is the 16 bits that everything is compared with."""
        return isinstance(self.formats[rung], BF16)


def ladder(names: Sequence[str], head_dim: int) -> Ladder:
    """Sorted by width; `ConfigError` or `FormatError` for a name, a repetition, or a single rung."""
    formats = sorted((parse(name, "value") for name in names), key=lambda one: one.tile_bytes(head_dim))
    found = Ladder(tuple(formats), head_dim)
    for one in formats:
        one.check_head_dim(head_dim)
    if len(formats) < 2 or len(set(found.bytes)) < len(formats):
        raise ConfigError(
            f"--ladder {','.join(names)}: name two or more formats of different widths, "
            "such as trellis2,trellis3,trellis4"
        )
    if found.kept(0):
        raise ConfigError(f"--ladder {','.join(names)}: bf16 cannot be the narrowest format")
    return found
