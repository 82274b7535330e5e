"""What a user asks for, checked before any model is loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kvant.cache.spec import CacheSpec
from kvant.errors import ConfigError
from kvant.quality.fidelity import names
from kvant.quality.fidelity.settings import Settings
from kvant.quality.fidelity.texts import Text


@dataclass(frozen=True)
class Request:
    """Configurations to compare with the 16-bit cache, on which texts and by which path."""

    presets: Sequence[str]
    recipes: Sequence[Path]
    calibration: Path | None
    peers: Sequence[str]
    texts: Sequence[Text]
    settings: Settings
    simulated: bool
    control: Path | str = ""
    """Folder of `settings.control`; "" is the model itself."""

    def __post_init__(self) -> None:
        if self.settings.control and (self.simulated or self.peers):
            raise ConfigError("--control: the simulated path and --peers load one model; leave them out")
        for name in self.presets:
            names.check(name, self.calibration)

    def specs(self, folder: Path | str) -> Mapping[str, CacheSpec]:
        """By name, for one model; a preset is calibrated for it now if it was not yet."""
        found = {name: names.spec_of(name, folder, self.calibration) for name in self.presets}
        return found | {str(recipe): names.of_recipe(recipe, folder) for recipe in self.recipes}

    @property
    def steps(self) -> int:
        """Groups of rows of a model; the engine adds stock vLLM and, with --control, its own 16 bits."""
        ours = len(self.presets) + len(self.recipes)
        more = 1 + bool(self.settings.control) if ours and not self.simulated else 0
        return ours + len(self.peers) + more
