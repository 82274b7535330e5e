"""What a user asks `kvant tune` for, checked before any model is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kvant.errors import ConfigError
from kvant.quality.fidelity.settings import Settings
from kvant.quality.fidelity.texts import Text
from kvant.quality.tune.ladder import Ladder
from kvant.quality.tune.search import TOLERANCE, Rungs
from kvant.recipes import Recipe


@dataclass(frozen=True)
class Request:
    """Tune `model`, in `folder`, into the recipe `name` in `output`.

    The budget is `bits` or, where that is None, `kl` on the tuning texts. `base` is the recipe whose key
    transforms, sinks and window are kept. `one_size`: the model mixes full and sliding-window layers, whose
    pages vLLM makes as large as the largest.
    """

    model: str
    folder: Path
    output: Path
    name: str
    base: Recipe
    ladder: Ladder
    bits: float | None
    kl: float | None
    texts: Sequence[Text]
    held_out: Sequence[Text]
    settings: Settings
    verify: Settings
    one_size: bool

    def __post_init__(self) -> None:
        if (self.bits is None) == (self.kl is None):
            raise ConfigError("--bits and --kl: give one of them, the budget that must be kept")
        least = 2 * self.ladder.bytes[0] * self.layers * self.unit
        if self.bits is not None and self.bits < least - TOLERANCE:
            raise ConfigError(
                f"--bits {self.bits:g}: the narrowest this --ladder can do is {least:.3f}; "
                "ask for more bits or add a narrower format"
            )
        both = {text.content for text in self.texts} & {text.content for text in self.held_out}
        if both:
            name = next(text.name for text in self.held_out if text.content in both)
            raise ConfigError(
                f"--eval-text {name}: is a tuning text too, and would flatter what was tuned on it; "
                "give another"
            )

    @property
    def layers(self) -> int:
        return self.base.facts.model.layers

    @property
    def unit(self) -> float:
        """Bits of a stored value for each byte of one vector of one layer."""
        return 8 / (2 * self.ladder.head_dim * self.layers)

    def size(self, rungs: Rungs) -> float:
        """Bits of a stored value, before sinks and window."""
        return sum(self.ladder.bytes[rung] for pair in rungs for rung in pair) * self.unit
