"""A real engine whose recipe holds the range of its errors: quiet as calibrated, loud when keys change."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kvant.cache import ranges
from kvant.cache.spec import CacheSpec
from kvant.engine.drift import LEAST
from kvant.recipes import sample
from kvant.recipes.model import observer
from kvant.recipes.plan import Span, plan
from kvant.recipes.ranges import with_ranges
from kvant.transforms.calibrated import Calibration, file_digest
from tests.engine.run import generate, prompt
from tests.engines import MakeEngine, Models

POSITIONS = 512
FORMATS = {"key": "codebook4", "value": "codebook3", "sinks": 4, "window": 32}


@pytest.fixture(scope="module")
def spec(models: Models, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Calibrated on tokens like those of `prompt`."""
    text = [prompt(6000, 99)]
    watched = observer(models("llama"), "cpu", lambda: Span(0, np.array(text[0][:16])))
    for span in plan(text, POSITIONS):
        watched.read(span)
    moments = watched.moments
    samples = sample.read(watched, sample.pieces(text, POSITIONS), lambda tokens: None)
    assert watched.moments is moments
    made = with_ranges(
        moments.calibration("gm", 0, {}), samples, CacheSpec.from_json(FORMATS), moments.owners
    )
    file = tmp_path_factory.mktemp("calibration") / "transforms.safetensors"
    made.save(file)
    return {**FORMATS, "calibration": str(file), "calibration_digest": file_digest(file)}


def serve(llm: Any, samples: int, seed: int) -> dict[str, Any]:
    """Answer prompts until so many more samples were taken; what the worker says of its errors."""
    (before,) = llm.collective_rpc("kvant_drift")
    for n in range(100):
        generate(llm, [prompt(500, seed + n * 8 + i) for i in range(8)], 4)
        (now,) = llm.collective_rpc("kvant_drift")
        if now["samples"] - before["samples"] >= samples:
            return now
    raise AssertionError(f"only {now['samples']} samples")


@contextmanager
def scaled_keys(llm: Any, factor: float) -> Iterator[None]:
    """Every key of the model multiplied, as another checkpoint's would be."""

    def scale(module: Any, inputs: Any, output: Any) -> None:
        output[0][:, 6 * 64 : 8 * 64] *= factor  # queries, keys, values

    (hooks,) = llm.apply_model(
        lambda model: [one.self_attn.qkv_proj.register_forward_hook(scale) for one in model.model.layers]
    )
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def test_an_alarm_begins_when_keys_change(
    engine: MakeEngine,
    spec: dict[str, Any],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    llm = engine(spec, max_num_batched_tokens=64)
    assert llm.collective_rpc("kvant_drift") == [{"samples": 0, "alarm": False, "drift": {}}]
    monkeypatch.setattr(logging.getLogger("vllm"), "propagate", True)
    with caplog.at_level(logging.INFO, "vllm.kvant"):
        quiet = serve(llm, LEAST + 16, 1000)
        assert not quiet["alarm"]
        assert all(0.3 < drift < 1.2 for drift in quiet["drift"].values())

        with scaled_keys(llm, 1.5):
            loud = serve(llm, LEAST, 5000)
        assert loud["alarm"]
        assert loud["drift"]["key"] > 2
        assert loud["drift"]["value"] < 1.2
        (line,) = {one for one in caplog.messages if one.startswith("kvant: errors of the KV cache left")}
        assert "most in the keys of layer" in line
        assert "`kvant calibrate " in line


def test_ranges_of_other_formats_are_not_compared_with(engine: MakeEngine, spec: dict[str, Any]) -> None:
    llm = engine({**spec, "key": "int8", "value": "int8"})
    generate(llm, [prompt(300)], 4)
    assert llm.collective_rpc("kvant_drift") == [None]


def test_a_recipe_without_ranges_is_served_unwatched(
    engine: MakeEngine, spec: dict[str, Any], tmp_path: Path
) -> None:
    file = tmp_path / "old.safetensors"
    made = Calibration.load(Path(spec["calibration"]))
    Calibration(made.layers, {}).save(file)
    llm = engine({**spec, "calibration": str(file), "calibration_digest": file_digest(file)})
    generate(llm, [prompt(300)], 4)
    assert llm.collective_rpc("kvant_drift") == [None]
    assert set(ranges.load(made.facts)) == {0, 1, 2, 3}
