"""What a cache is made of, from what the caller has: a spec, its JSON object, or the folder of a recipe."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvant.cache.spec import CacheSpec
from kvant.errors import ConfigError

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def spec_of(
    given: CacheSpec | Mapping[str, Any] | str | os.PathLike[str], model: PreTrainedModel
) -> CacheSpec:
    """The spec; `ConfigError` and `CalibrationError` say what is wrong with it, or why not for this model."""
    if isinstance(given, CacheSpec):
        return given
    if isinstance(given, Mapping):
        return CacheSpec.from_json(dict(given))
    from kvant.models import manifest
    from kvant.recipes import load

    recipe = load(Path(given))
    files = Path(model.name_or_path)
    if not model.name_or_path or not files.is_dir():
        raise ConfigError(
            f"{recipe.folder}: a recipe is pinned to the files of its model, and this model was not loaded "
            "from a folder: load it from one, or give kvant.recipes.load(...).spec and answer for the match"
        )
    recipe.check_model(manifest.recorded(files))
    return recipe.spec
