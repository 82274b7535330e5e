"""Folders of quantised weights: the numbers in them, and that they are calibrated and compared as such."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from benchmarks.weights.quantise import GROUP, quantise, rounded
from kvant.models import manifest, weights
from kvant.recipes import load
from kvant.recipes.calibrate import Job, calibrate
from tests.recipes import made

NAME = "model.layers.1.mlp.down_proj.weight"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model of bytes whose sizes vLLM's CPU kernels take."""
    return made.model(tmp_path_factory.mktemp("weights") / "tiny", head_dim=64, intermediate_size=128)


@pytest.fixture(scope="module", params=["int8", "int4"])
def quantised(model: Path, request: pytest.FixtureRequest) -> Path:
    folder = model.with_name(request.param)
    quantise(model, folder, request.param)
    return folder


@pytest.mark.parametrize(("bits", "steps"), [(8, 127), (4, 7.5)])
def test_a_weight_is_rounded_to_the_nearest_step(bits: int, steps: float) -> None:
    weight = torch.randn((16, 64), generator=torch.Generator().manual_seed(1))
    codes, scale = rounded(weight, bits, GROUP)
    assert (codes.shape, scale.shape) == ((16, 64), (16, 2))
    assert int(codes.min()) >= -(2 ** (bits - 1))
    assert int(codes.max()) <= 2 ** (bits - 1) - 1
    step = scale.float().repeat_interleave(GROUP, 1)
    error = (weight - codes * step).abs() / step
    # Half a step; what a bf16 scale moves the end by; and the half step that +7.5 has no code for.
    assert float(error.max()) <= 0.5 + steps * 2**-8
    np.testing.assert_allclose(step.amax(1) * steps, weight.abs().amax(1), rtol=2**-8)


def test_transformers_reads_the_numbers_that_the_codes_stand_for(model: Path, quantised: Path) -> None:
    from transformers import AutoModelForCausalLM

    bits = 8 if quantised.name == "int8" else 4
    weight = load_file(model / "model.safetensors")[NAME]
    codes, scale = rounded(weight, bits, weight.shape[1] if bits == 8 else GROUP)
    expected = codes * scale.float().repeat_interleave(weight.shape[1] // scale.shape[1], 1)
    read = AutoModelForCausalLM.from_pretrained(quantised, dtype=torch.float32, **weights.reading(quantised))
    found = read.model.layers[1].mlp.down_proj.weight.detach()
    torch.testing.assert_close(found, expected, rtol=2**-7, atol=1e-6)
    assert 0 < float((found - weight).norm() / weight.norm()) < (0.02 if bits == 8 else 0.2)


def test_a_plain_folder_is_read_as_ever(model: Path) -> None:
    assert weights.reading(model) == {}
    assert weights.reading("owner/name") == {}


def test_a_quantised_folder_is_calibrated_and_its_recipe_is_its_own(
    model: Path, quantised: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVANT_HOME", str(tmp_path))
    digest = manifest.verify(quantised, trust=False)
    assert digest != manifest.verify(model, trust=True)
    job = Job(str(quantised), digest, quantised.name, "int8", "gm", max_position=256)
    recipe = load(calibrate(job))
    recipe.check_model(digest, 3, 2, [64])
    assert recipe.facts.model.digest == digest


@pytest.mark.slow
def test_the_engine_runs_it_and_compares_it_with_the_model_it_was_made_from(
    model: Path, quantised: Path, kvant_command, tmp_path: Path
) -> None:
    out, text = tmp_path / "f.json", tmp_path / "mine.txt"
    text.write_text("The quick brown fox jumps over the lazy dog. " * 10)
    words = ("fidelity", str(quantised), "--text", str(text), "--tokens", "128", "--preset")
    result = kvant_command(*words, "codebook2/codebook2", "--control", str(model), "--json", str(out))
    assert result.status == 0, result.err
    rows = {(row["preset"], "against" in row): row for row in json.loads(out.read_text())["rows"]}
    assert {*rows} == {("16-bit", True)} | {
        (p, a) for p in ("stock", "codebook2/codebook2") for a in (True, False)
    }
    kernel = {"int8": "CPUInt8ScaledMMLinearKernel", "int4": "CPUWNA16LinearKernel"}[quantised.name]
    assert all(row["weights"].startswith(kernel) for row in rows.values())
    low, high = (1e-5, 0.05) if quantised.name == "int8" else (1e-3, 1.0)
    assert low < rows["16-bit", True]["kl"] < high
    # With activations in int8 the noise of 16 bits is no longer small: only coarse codes stand out.
    assert rows["16-bit", True]["kl"] < rows["codebook2/codebook2", True]["kl"]
    assert rows["stock", False]["kl"] < rows["codebook2/codebook2", False]["kl"]

    other = made.model(tmp_path / "other", head_dim=64, intermediate_size=128, vocab_size=260)
    result = kvant_command(*words, "int8/int8", "--control", str(other))
    assert result.status == 2
    assert "the output head is not that of the --control model" in result.err
