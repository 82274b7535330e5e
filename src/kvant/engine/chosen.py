"""Settings and a model -> the cache to serve: named formats, a recipe, or a preset and its calibration.

A calibrated preset is calibrated at the first start. Where that cannot be, the safe preset is served and
the table says why; whoever named the preset gets an error instead.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from kvant import recipes
from kvant.cache.spec import CacheSpec
from kvant.config import Settings
from kvant.errors import CalibrationError, EngineError
from kvant.models.size import parameters
from kvant.recipes import child, place
from kvant.recipes.calibrate import Job
from kvant.recipes.preset import SAFE, Preset, find, names

AT_START = 1_100_000_000
"""Parameters up to which a model is calibrated while it starts: minutes on two cores."""

Report = Callable[[str], None]


@dataclass(frozen=True)
class Chosen:
    """What the engine is told (None: vLLM's own cache), and what the start-up table says of it."""

    spec: CacheSpec | None
    preset: str = ""
    recipe: recipes.Recipe | None = None
    notes: tuple[str, ...] = ()

    @property
    def calibrated_layers(self) -> int:
        """Layers whose key transforms were loaded; a recipe that lacks one is refused."""
        made = self.recipe.facts if self.recipe else None
        return made.model.layers if made and made.calibration else 0


def choose(settings: Settings, model: Path | str, digest: str, report: Report = lambda text: None) -> Chosen:
    """`digest` names the model's files, "" for a hub id; `report` hears what takes long."""
    cache = settings.kv_cache
    if not cache.enable_quant:
        return Chosen(None)
    if cache.recipe is not None:
        return _of_recipe(settings, cache.preset or "", Path(cache.recipe), digest)
    if cache.preset is None:
        return Chosen(cache.to_spec())
    wanted = find(cache.preset)
    if not wanted.calibrated:
        return _of_preset(settings, cache.preset, wanted)
    try:
        folder = _calibrated(settings, model, digest, cache.preset, report)
    except CalibrationError as error:
        if "preset" in cache.model_fields_set:
            raise EngineError(f"kv_cache.preset {cache.preset}: {error}") from None
        note = f"kv_cache.preset: {SAFE} is served instead of {cache.preset}: {error}"
        return replace(_of_preset(settings, SAFE, find(SAFE)), notes=(note,))
    return _of_recipe(settings, cache.preset, folder, digest)


def _of_preset(settings: Settings, name: str, preset: Preset) -> Chosen:
    cache = settings.kv_cache
    return Chosen(preset.spec(block_size=cache.block_size, skip_layers=list(cache.skip_layers)), name)


def _of_recipe(settings: Settings, preset: str, folder: Path, digest: str) -> Chosen:
    if not digest:
        raise EngineError(
            f"{folder}: a recipe is pinned to the files of its model, and {settings.model.path!r} is a hub "
            "id: set model.path to a folder"
        )
    recipe = recipes.load(folder)
    recipe.check_model(digest)
    cache = settings.kv_cache
    spec = replace(recipe.spec, block_size=cache.block_size)
    if cache.skip_layers:
        spec = replace(spec, skip_layers=cache.skip_layers)
    return Chosen(spec, preset or recipe.facts.name, recipe, tuple(_beyond(settings, recipe)))


def _beyond(settings: Settings, recipe: recipes.Recipe) -> Iterator[str]:
    """A note where requests may be longer than what was calibrated."""
    made, longest = recipe.facts.calibration, settings.serving.max_context
    if made and longest and longest > made.max_position:
        name, tuned = recipe.facts.name, recipe.facts.name not in names()
        command = f"kvant calibrate {shlex.quote(settings.model.path)} --preset {'max' if tuned else name}"
        again = f", then again `{recipe.facts.provenance.command}`" if tuned else ""
        yield (
            f"serving.max_context: {longest} tokens, but {recipe.folder} was calibrated for positions below "
            f"{made.max_position}: `{command} --max-position {longest} --force`{again}"
        )


def _calibrated(settings: Settings, model: Path | str, digest: str, preset: str, report: Report) -> Path:
    """The folder of the preset's recipe for this model, made now if the model is small."""
    if not isinstance(model, Path):
        raise CalibrationError(f"{model!r} is a hub id, and calibration is pinned to files: give a folder")
    folder = place.folder(digest, preset)
    if folder.exists():
        return folder
    size = parameters(model)
    command = f"kvant calibrate {shlex.quote(settings.model.path)} --preset {preset}"
    if size > AT_START:
        raise CalibrationError(
            f"a model of {size / 1e9:.1f} billion parameters is not calibrated while it starts; do it once: "
            f"`{command}`"
        )
    report(f"the model is being calibrated for preset {preset}, once")
    return child.run(
        Job(
            model=str(model),
            digest=digest,
            name=model.absolute().name,
            preset=preset,
            command=command,
        )
    )
