"""A recipe: how one model's cache is stored, a folder pinned to the model's digest.

recipe.yaml         this file's records, read strictly
transforms.safetensors  calibrated key transforms (`kvant.transforms.calibrated`), pinned by SHA-256
README.md           the card, for people

Light: whoever serves loads it, so it imports no framework.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from kvant.cache.spec import CacheSpec
from kvant.config.docs import dump
from kvant.config.reader import Node
from kvant.config.section import Section, Text, Whole
from kvant.errors import CalibrationError, KvantError
from kvant.recipes import strict
from kvant.transforms.calibrated import Calibration, file_digest

RECIPE = "recipe.yaml"
TRANSFORMS = "transforms.safetensors"
CARD = "README.md"

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]


class Model(Section):
    """The model it was made for; `digest` is that of its checksum manifest."""

    name: Text
    digest: Digest
    layers: Positive
    kv_heads: Positive
    head_dim: Positive


class Formats(Section):
    """What one layer stores."""

    key: Text
    value: Text


class Cache(Formats):
    """The fields of `kvant.cache.spec.CacheSpec`, but for the page size and the calibration."""

    rotate: bool
    seed: Count
    sinks: Count
    window: Count
    skip_layers: tuple[Count, ...] = Field(strict=False)
    layers: dict[str, Formats]


class Calibrated(Section):
    """The file of key transforms, and what they were learnt from."""

    file: Text
    sha256: Digest
    transform: Literal["gm", "diag"]
    max_position: Positive
    tokens: Positive
    corpora: tuple[Text, ...] = Field(strict=False)


class Provenance(Section):
    """Who made it, when (ISO date), with which command."""

    kvant: Text
    date: Text
    command: Text


class Facts(Section):
    """Everything in recipe.yaml."""

    version: Annotated[Literal[1], Whole]
    name: Text
    model: Model
    cache: Cache
    calibration: Calibrated | None = None
    provenance: Provenance
    fidelity: tuple[dict[str, str | int | float], ...] = Field(default=(), strict=False)


@dataclass(frozen=True)
class Recipe:
    """A recipe that was read and whose transforms are whole and the right ones."""

    folder: Path
    facts: Facts
    spec: CacheSpec
    digest: str
    """SHA-256 of recipe.yaml, which pins the transforms too."""

    def check_model(
        self,
        digest: str,
        layers: int | None = None,
        kv_heads: int | None = None,
        head_dims: Iterable[int] = (),
    ) -> None:
        """`CalibrationError` unless it was made for this model; None and () are not known."""
        made = self.facts.model
        found = [
            ("layers", made.layers, layers),
            ("KV heads", made.kv_heads, kv_heads),
            *(("head_dim", made.head_dim, dim) for dim in head_dims),
            ("digest", made.digest, digest),
        ]
        wrong = [f"{name} {is_}, the model has {has}" for name, is_, has in found if has not in (None, is_)]
        if wrong:
            raise CalibrationError(
                f"{self.folder / RECIPE}: the recipe was made for another model ({made.name}): "
                f"{'; '.join(wrong)}; make one with `kvant calibrate`"
            )


def load(folder: Path | str) -> Recipe:
    """The recipe in a folder; `CalibrationError` names file, line and field of what is wrong."""
    folder = Path(folder).expanduser().absolute()
    file = folder / RECIPE
    if not file.is_file():
        raise CalibrationError(f"{folder}: is no recipe: it has no {RECIPE}; `kvant calibrate` makes one")
    facts, tree = strict.load(file, Facts)
    fields: dict[str, Any] = facts.cache.model_dump(mode="json")
    if facts.calibration:
        fields |= _calibration(folder, facts, tree)
    try:
        spec = CacheSpec.from_json(fields)
    except KvantError as error:
        text = str(error).removeprefix("kvant.").removeprefix("kvant: ")
        line = strict.line_of(tree, ["cache", text.partition(" ")[0]])
        raise CalibrationError(f"{file}:{line}: cache: {text}") from None
    named = {"skip_layers": spec.skip_layers, "layers": [one.layer for one in spec.layers]}
    for field, numbers in named.items():
        for number in numbers:
            if number >= facts.model.layers:
                line = strict.line_of(tree, ["cache", field])
                raise CalibrationError(
                    f"{file}:{line}: cache.{field}: names layer {number}, but model.layers is "
                    f"{facts.model.layers}"
                )
    return Recipe(folder, facts, spec, file_digest(file))


def _calibration(folder: Path, facts: Facts, tree: Node) -> dict[str, str]:
    """The two fields of the spec, after the file was found to be what recipe.yaml says."""
    made, model = facts.calibration, facts.model
    assert made is not None
    place = f"{folder / RECIPE}:{strict.line_of(tree, ['calibration', 'file'])}: calibration.file"
    if Path(made.file).name != made.file:
        raise CalibrationError(f"{place}: {made.file!r} is not a file name; it lies beside {RECIPE}")
    path = folder / made.file
    if not path.is_file():
        raise CalibrationError(f"{place}: {path} is missing; `kvant calibrate --force` makes it again")
    digest = file_digest(path)
    if digest != made.sha256:
        raise CalibrationError(
            f"{folder / RECIPE}:{strict.line_of(tree, ['calibration', 'sha256'])}: calibration.sha256: "
            f"{path.name} is damaged or of another recipe: its SHA-256 is {digest}, expected {made.sha256}; "
            "`kvant calibrate --force` makes it again"
        )
    calibration = Calibration.load(path)
    wanted = set(range(model.layers))
    for layer in sorted(wanted ^ calibration.layers.keys()):
        what = "is missing" if layer in wanted else f"is one too many: model.layers is {model.layers}"
        raise CalibrationError(f"{path}: layer {layer} {what}")
    for layer, one in calibration.layers.items():
        if one.mean.shape != (model.kv_heads, model.head_dim):
            raise CalibrationError(
                f"{path}: layer {layer}: mean has shape {one.mean.shape}, the recipe's model "
                f"({model.kv_heads}, {model.head_dim})"
            )
    return {"calibration": str(path), "calibration_digest": digest}


def save(folder: Path, facts: Facts) -> None:
    """Write recipe.yaml beside the files it names; the folder is not in its final place yet."""
    (folder / RECIPE).write_text(dump(facts.model_dump(mode="json")), encoding="utf-8")
