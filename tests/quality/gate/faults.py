"""Recipes with one fault each, whose digests match: nothing but their answers can give them away."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from kvant.recipes.recipe import RECIPE, TRANSFORMS
from kvant.transforms.calibrated import Calibration, Transform, file_digest

SABOTAGE = Path(__file__).with_name("sabotage")
"""A `sitecustomize` for faults that no recipe can state: code that encodes and reads differently."""

Facts = dict[str, Any]
Change = Callable[[Facts, Calibration], Calibration]

LAYER = 12


def transform_off(facts: Facts, made: Calibration) -> Calibration:
    """Identity in the place of every calibrated transform, rotation included."""

    def plain(one: Transform) -> Any:
        identity = np.broadcast_to(np.eye(one.mean.shape[1], dtype=np.float32), one.matrix.shape)
        return type(one)(np.zeros_like(one.mean), identity.copy())

    return replace(
        made,
        layers={n: plain(one) for n, one in made.layers.items()},
        values={n: plain(one) for n, one in made.values.items()},
    )


def sinks_off(facts: Facts, made: Calibration) -> Calibration:
    """The first tokens, whose keys are like no others, are stored as codes too."""
    facts["cache"]["sinks"] = 0
    return made


def one_layer_at_one_bit(facts: Facts, made: Calibration) -> Calibration:
    """Two-bit codes of vectors half of whose coordinates are no louder than the noise of the codes.

    No format has one bit. Here half of the coordinates keep about two bits and the others about none.
    """
    facts["cache"]["layers"] = {str(LAYER): {"key": "trellis2", "value": "trellis2"}}

    def halved(one: Any) -> Any:
        gain = np.where(np.arange(one.matrix.shape[-1]) % 2, 0.15, 1.0).astype(np.float32)
        return type(one)(one.mean, np.ascontiguousarray(one.matrix * gain))

    values = dict(made.values)
    if values:
        values[LAYER] = halved(values[LAYER])
    return replace(made, layers={**made.layers, LAYER: halved(made.layers[LAYER])}, values=values)


def of_another_model(other: Path) -> Change:
    """The transforms of another model, cut and repeated until their shapes fit."""

    def change(facts: Facts, made: Calibration) -> Calibration:
        theirs = Calibration.load(other / TRANSFORMS)
        kind: dict[str, Mapping[int, Any]] = {"layers": theirs.layers, "values": theirs.values}

        def fitted(one: Transform, stranger: Transform) -> Any:
            heads = np.arange(len(one.mean)) % len(stranger.mean)
            return type(one)(stranger.mean[heads], np.ascontiguousarray(stranger.matrix[heads]))

        def all_of(mine: Mapping[int, Any], field: str) -> dict[int, Any]:
            return {n: fitted(one, kind[field][n % len(kind[field])]) for n, one in mine.items()}

        return replace(made, layers=all_of(made.layers, "layers"), values=all_of(made.values, "values"))

    return change


def plant(recipe: Path, into: Path, change: Change) -> Path:
    """A copy of a recipe with one change, and digests that fit it."""
    shutil.copytree(recipe, into)
    facts = yaml.safe_load((into / RECIPE).read_text())
    changed = change(facts, Calibration.load(into / TRANSFORMS))
    changed.save(into / TRANSFORMS)
    facts["calibration"]["sha256"] = file_digest(into / TRANSFORMS)
    (into / RECIPE).write_text(yaml.safe_dump(facts, sort_keys=False))
    return into
