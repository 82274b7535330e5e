"""Which cache a service gets: named formats, a recipe, a preset with its calibration, or the safe preset."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kvant.config import KVCache, Settings
from kvant.engine import chosen
from kvant.engine.chosen import choose
from kvant.errors import CalibrationError, EngineError
from kvant.models.size import parameters
from kvant.recipes import load, place
from tests import tiny
from tests.recipes import made

OTHER = "cd" * 32


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVANT_HOME", str(tmp_path / "home"))


def settings(**cache: Any) -> Settings:
    return Settings.model_validate({"kv_cache": cache, "model": {"path": "tiny"}})


def unsaid(preset: str, **serving: Any) -> Settings:
    """Settings whose default preset is this one: nobody named it."""
    whole = Settings.model_validate({"serving": serving, "model": {"path": "tiny"}})
    cache = KVCache.model_construct(_fields_set=set(), preset=preset)
    return whole.model_copy(update={"kv_cache": cache})


def test_named_formats_are_served_as_they_are() -> None:
    found = choose(settings(key_bits=4, value_bits=4, block_size=32), "owner/name", "")
    assert found.spec is not None
    assert (found.spec.name, found.spec.block_size) == ("codebook4/codebook4", 32)
    assert (found.preset, found.recipe, found.notes) == ("", None, ())


def test_the_baseline_has_no_spec() -> None:
    assert choose(settings(enable_quant=False), "owner/name", "").spec is None


def test_a_preset_that_needs_no_calibration_serves_any_model() -> None:
    found = choose(settings(preset="founding", block_size=32, skip_layers=[1]), "owner/name", "")
    assert found.spec is not None
    assert (found.spec.name, found.spec.skip_layers) == ("codebook3+jl/codebook4", (1,))
    assert (found.spec.block_size, found.preset, found.calibrated_layers) == (32, "founding", 0)


def test_a_recipe_is_served_in_the_pages_of_the_settings(tmp_path: Path) -> None:
    folder = made.recipe(tmp_path / "made", key="codebook4")
    found = choose(settings(recipe=str(folder), block_size=32), tmp_path, made.DIGEST)
    assert found.spec == replace(load(folder).spec, block_size=32)
    assert (found.preset, found.recipe, found.calibrated_layers) == ("made", load(folder), made.LAYERS)


def test_a_recipe_of_another_model_is_refused(tmp_path: Path) -> None:
    folder = made.recipe(tmp_path / "made")
    with pytest.raises(CalibrationError, match=r"made for another model \(tiny\)"):
        choose(settings(recipe=str(folder)), tmp_path, OTHER)
    with pytest.raises(EngineError, match="'tiny' is a hub id"):
        choose(settings(recipe=str(folder)), "owner/name", "")


def test_a_calibrated_preset_is_found_where_it_was_made(tmp_path: Path) -> None:
    made.recipe(place.folder(made.DIGEST, "max"))
    found = choose(settings(preset="max", skip_layers=[2]), tmp_path, made.DIGEST)
    assert found.spec is not None
    assert found.spec.calibration.startswith(str(place.folder(made.DIGEST, "max")))
    assert (found.preset, found.spec.skip_layers, found.notes) == ("max", (2,), ())


def test_requests_beyond_the_calibrated_positions_are_noted(tmp_path: Path) -> None:
    made.recipe(place.folder(made.DIGEST, "max"))
    (note,) = choose(unsaid("max", max_context=4096), tmp_path, made.DIGEST).notes
    assert "calibrated for positions below 2048" in note
    assert "`kvant calibrate tiny --preset max --max-position 4096 --force`, then again `kvant " in note


def test_a_damaged_recipe_is_never_replaced_by_the_safe_preset(tmp_path: Path) -> None:
    folder = made.recipe(place.folder(made.DIGEST, "max"))
    (folder / "recipe.yaml").write_text("version: 1\n")
    with pytest.raises(CalibrationError, match=r"recipe.yaml:1: cache: is missing"):
        choose(unsaid("max"), tmp_path, made.DIGEST)


def test_a_large_model_is_not_calibrated_while_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tiny.write(tmp_path / "tiny")
    monkeypatch.setattr(chosen, "AT_START", parameters(folder) - 1)
    found = choose(unsaid("max"), folder, made.DIGEST)
    assert found.spec is not None
    assert (found.preset, found.spec.name) == ("int8", "int8/int8")
    (note,) = found.notes
    assert note.startswith("kv_cache.preset: int8 is served instead of max: a model of 0.0 billion")
    assert note.endswith("`kvant calibrate tiny --preset max`")
    with pytest.raises(EngineError, match=r"kv_cache\.preset max: a model of"):
        choose(settings(preset="max"), folder, made.DIGEST)


def test_a_hub_id_gets_the_safe_preset() -> None:
    (note,) = choose(unsaid("max"), "owner/name", "").notes
    assert "'owner/name' is a hub id" in note


def test_an_architecture_that_cannot_be_calibrated_gets_the_safe_preset(tmp_path: Path) -> None:
    from transformers import DeepseekV3Config

    folder = tmp_path / "mla"
    DeepseekV3Config().save_pretrained(folder)
    heard: list[str] = []
    found = choose(unsaid("max"), folder, made.DIGEST, heard.append)
    assert heard == ["the model is being calibrated for preset max, once"]
    assert found.preset == "int8"
    assert "mla cannot be calibrated: multi-head latent attention" in found.notes[0]


def test_parameters_are_counted_from_the_headers(tmp_path: Path) -> None:
    folder = tiny.write(tmp_path / "tiny", num_hidden_layers=1, tie_word_embeddings=False)
    (folder / "more.bin").write_bytes(bytes(10))
    hidden, inner, words = 384, 768, tiny.VOCABULARY
    attention = 2 * hidden * 384 + 2 * hidden * 128
    assert parameters(folder) == 2 * words * hidden + attention + 3 * hidden * inner + 3 * hidden + 5
