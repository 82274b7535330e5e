"""A recipe's folder instead of a spec: the same cache, and only for the model it is pinned to."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvant.errors import CalibrationError, ConfigError
from kvant.models import manifest
from kvant.research import KvantCache
from tests.recipes import made
from tests.research import tiny


def test_a_recipe_and_its_model(tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    config = {"num_hidden_layers": made.LAYERS, "num_key_value_heads": made.HEADS, "head_dim": made.DIM}
    tiny.model(**config).save_pretrained(tmp_path / "model")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    recipe = made.recipe(tmp_path / "recipe", digest=manifest.recorded(tmp_path / "model"))
    with KvantCache(model, recipe) as cache:
        assert (cache.spec.name, cache.spec.sinks, cache.spec.window) == ("int8/int8", 4, 64)
        found = model.generate(tiny.text(1, 90), past_key_values=cache, max_new_tokens=5, do_sample=False)
        assert found.shape[1] == 95
        assert cache.layers[3].paged.keeps
    with pytest.raises(CalibrationError, match="made for another model"):
        KvantCache(model, made.recipe(tmp_path / "other"))
    with pytest.raises(ConfigError, match="was not loaded from"):
        KvantCache(tiny.model(**config), str(recipe))
