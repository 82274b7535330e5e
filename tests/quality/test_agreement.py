"""The engine and the simulation are the same cache: one spec that uses everything, on a tiny model."""

from __future__ import annotations

import os
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import torch

from kvant.cache import CacheSpec
from kvant.quality.score import compare
from kvant.quality.simulated.model import Simulator
from kvant.quality.simulated.spec import scheme_of
from kvant.transforms import Calibration, KeyTransform
from kvant.transforms.calibrated import file_digest
from tests.engine.run import prompt
from tests.engines import ENVIRONMENT, Models

LENGTH = 600
"""More than a step of the engine."""

NOISE = 0.01
"""KL between the paths, as a share of the distance of either from 16 bits: float32 rounding moves a code
now and then, and the engine multiplies queries in two 8-bit terms."""


@pytest.fixture
def spec(tmp_path: Path, rng: np.random.Generator) -> CacheSpec:
    """Sinks, window, a skipped layer, a layer of its own formats, and a calibrated transform of keys."""
    file = tmp_path / "transforms.safetensors"
    near_rotation = [np.linalg.qr(rng.standard_normal((64, 64)))[0] * rng.uniform(0.5, 2, 64) for _ in "ab"]
    one = KeyTransform(
        rng.standard_normal((2, 64)).astype(np.float32), np.stack(near_rotation).astype(np.float32)
    )
    Calibration(dict.fromkeys(range(4), one), {}).save(file)
    return CacheSpec.from_json(
        {
            "key": "codebook3", "value": "codebook2", "sinks": 4, "window": 40, "skip_layers": [1],
            "layers": {"2": {"key": "int4", "value": "int8"}},
            "calibration": str(file), "calibration_digest": file_digest(file),
        }
    )  # fmt: skip


def test_the_engine_and_the_simulation_agree(spec: CacheSpec, models: Models, simulator: Simulator) -> None:
    from kvant.engine.forced import Forced

    ids = prompt(LENGTH, seed=5)
    with patch.dict(os.environ, ENVIRONMENT):
        engine = Forced(models("llama"), spec, LENGTH, "float32")
    torch.set_num_threads(1)
    facts = engine.facts()
    assert facts.pop("kernel")
    assert facts == {"layers": 4, "head_dim": 64, "kv_heads": 2, "weights": ""}
    served, simulated = engine.states(ids), simulator.states(ids, scheme_of(spec, simulator.shape))
    torch.testing.assert_close(engine.logits(served), simulator.logits(served))
    between = compare(served, simulated, ids, simulator.logits, 0)
    moved = compare(simulator.states(ids), simulated, ids, simulator.logits, 0)
    assert moved.kl.mean() > 0.01
    assert between.kl.mean() < NOISE * moved.kl.mean()
    assert between.kl[:4].max() < 1e-4, "sinks"

    written = engine.write([(ids[:50], 0.0, 0), (ids[:60], 0.8, 7), (ids[:60], 0.8, 7)], 90)
    assert [len(text) for text in written] == [40, 30, 30]
    assert written[1] == written[2], "a seed fixes what is drawn"
    read = engine.logits(engine.states(ids[:50] + written[0]))[49:-1]
    chosen = read.gather(1, torch.tensor(written[0])[:, None])[:, 0]
    assert float((read.amax(1) - chosen).max()) < 0.01, "what is written is what the forced text predicts"
