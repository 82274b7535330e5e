"""Reported failures of kind state-identity: artefacts of a calibration.

H5-21: scales under other tensor names were dropped, every layer fell back to 1.0, and nothing was said.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kvant.engine.announce import recipe_line
from kvant.engine.early import check
from kvant.errors import CalibrationError, ConfigError
from kvant.models import manifest
from kvant.recipes import load
from kvant.recipes.recipe import TRANSFORMS, save
from kvant.transforms.calibrated import METADATA, file_digest
from tests.engine.run import generate, prompt
from tests.engines import MakeEngine, Models
from tests.recipes import made
from tests.reported.test_state_identity import resolve

pytest.importorskip("vllm")

Tensors = dict[str, Any]


def refuse_start(folder: Path) -> str:
    """What vLLM's command line with this recipe is refused with, before anything is loaded."""
    option = json.dumps({"kvant": {"recipe": str(folder)}})
    words = ["serve", "x", "--attention-backend", "CUSTOM", "--additional-config", option]
    with pytest.raises(CalibrationError) as caught:
        check(["/usr/bin/vllm", *words])
    return str(caught.value)


def renamed(tensors: Tensors) -> Tensors:
    return {f"model.{name}": tensor for name, tensor in tensors.items()}


def without(*names: str) -> Callable[[Tensors], Tensors]:
    return lambda tensors: {name: tensor for name, tensor in tensors.items() if name not in names}


def one_more(tensors: Tensors) -> Tensors:
    return tensors | {f"layers.9.{part}": tensors[f"layers.0.{part}"] for part in ("mean", "matrix")}


def changed(name: str, change: Callable[[Any], Any]) -> Callable[[Tensors], Tensors]:
    return lambda tensors: tensors | {name: np.ascontiguousarray(change(tensors[name].copy()))}


def put(value: float) -> Callable[[Any], Any]:
    def change(tensor: Any) -> Any:
        tensor[..., 0] = value
        return tensor

    return change


BAD = {
    "another prefix": (renamed, "tensor 'model.layers.0"),
    "a layer missing": (without("layers.2.mean", "layers.2.matrix"), "layer 2 is missing"),
    "a layer too many": (one_more, "layer 9 is one too many: model.layers is 4"),
    "only one part": (without("layers.1.matrix"), "layer 1 has no tensor layers.1.matrix"),
    "wrong length": (changed("layers.1.mean", lambda x: x[:, :32]), "layer 1: mean (2, 32) and matrix"),
    "wrong heads": (changed("layers.1.mean", lambda x: x[:1]), "layer 1: mean (1, 64) and matrix"),
    "wrong type": (changed("layers.3.mean", lambda x: x.astype(np.float64)), "layer 3: mean is float64"),
    "zero": (changed("layers.3.matrix", put(0.0)), "layer 3: matrix of head 0 cannot be inverted"),
    "NaN": (changed("layers.0.mean", put(np.nan)), "layer 0: mean has numbers that are not finite"),
    "infinite": (changed("layers.2.matrix", put(np.inf)), "layer 2: matrix has numbers that are not finite"),
}


@pytest.mark.parametrize("case", BAD)
def test_h5_21_a_bad_artefact_stops_the_start_and_names_layer_and_field(tmp_path: Path, case: str) -> None:
    from safetensors import safe_open
    from safetensors.numpy import save_file

    spoil, message = BAD[case]
    folder = made.recipe(tmp_path / "made")
    with safe_open(folder / TRANSFORMS, "numpy") as file:
        metadata = file.metadata()
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    assert METADATA in metadata
    save_file(spoil(tensors), folder / TRANSFORMS, metadata)
    # Pinned all the same: it was made so.
    save(folder, made.facts(folder))
    told = refuse_start(folder)
    assert message in told
    assert str(folder / TRANSFORMS) in told


def test_h5_21_an_artefact_of_another_recipe_stops_the_start(tmp_path: Path) -> None:
    folder = made.recipe(tmp_path / "made")
    other = made.recipe(tmp_path / "other", made.transforms(heads=3))
    shutil.copy(other / TRANSFORMS, folder / TRANSFORMS)
    assert "calibration.sha256: transforms.safetensors is damaged or of another recipe" in refuse_start(
        folder
    )
    save(folder, made.facts(folder))
    assert "layer 0: mean has shape (3, 64), the recipe's model (2, 64)" in refuse_start(folder)


def test_h5_21_an_artefact_of_another_model_stops_the_start(models: Models, tmp_path: Path) -> None:
    folder = made.recipe(tmp_path / "made", digest="cd" * 32)
    option = {"attention_backend": "CUSTOM", "additional_config": {"kvant": {"recipe": str(folder)}}}
    with pytest.raises(CalibrationError, match=r"made for another model \(tiny\): digest cdcd"):
        resolve(models("llama"), **option)


def test_h5_21_a_good_one_is_loaded_whole_and_says_so(
    models: Models, engine: MakeEngine, tmp_path_factory: pytest.TempPathFactory
) -> None:
    digest = manifest.verify(models("llama"), trust=True)
    folder = made.recipe(tmp_path_factory.mktemp("recipe") / "made", digest=digest, sinks=0, window=0)
    recipe = load(folder)
    assert recipe_line(recipe).endswith(
        f"digest {recipe.digest}: transforms of 4 of 4 layers, SHA-256 {file_digest(folder / TRANSFORMS)}"
    )
    llm = engine({"recipe": str(folder)})
    (report,) = llm.collective_rpc("kvant_report")
    assert [layer["identity"]["calibration"] for layer in report["layers"]] == [
        recipe.spec.calibration_digest
    ] * 4
    plain = engine({"key": "int8", "value": "int8"})
    mine, theirs = (
        [list(out.outputs[0].token_ids) for out in generate(one, [prompt(40, 1)], 4)] for one in (llm, plain)
    )
    assert mine == theirs


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (
            {"recipe": "{made}", "key": "int8", "sinks": 4},
            "kvant.key: a recipe says this already; give either",
        ),
        ({"recipe": 3}, "kvant.recipe: 3 is not the folder of a recipe"),
        ({"recipes": "{made}"}, "kvant.recipes: unknown field"),
    ],
)
def test_a_recipe_is_all_that_plain_vllm_is_told(
    tmp_path: Path, option: dict[str, Any], message: str
) -> None:
    folder = made.recipe(tmp_path / "made")
    told = json.dumps({"kvant": option}).replace("{made}", str(folder))
    with pytest.raises(ConfigError, match=message):
        check(["/usr/bin/vllm", "serve", "--attention-backend", "CUSTOM", "--additional-config", told])
