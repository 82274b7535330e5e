"""Planted faults are failed, each by the suite `fidelity` alone; the sound preset passes every time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kvant.quality.gate.arm import Arm
from kvant.quality.gate.outcome import Outcome
from kvant.quality.gate.run import gate
from kvant.quality.gate.settings import Fidelity, Golden, Needle, Settings
from kvant.quality.gate.verdict import Verdict
from tests.e2e.server import MODEL, Server, serving
from tests.quality.gate import faults

pytestmark = pytest.mark.slow

CONTEXT = 4096
SETTINGS = Settings(
    fidelity=Fidelity(texts=3, tokens=1024),
    needle=Needle(lengths=(256,), trials=9),
    golden=Golden(prompts=12, tokens=24, context=192, parted=0.40),
)
REPEATS = 20

CODE = ("seed", "codebook")
RECIPES = {
    "transform off": faults.transform_off,
    "sinks off": faults.sinks_off,
    "one layer at one bit": faults.one_layer_at_one_bit,
}


@pytest.fixture(scope="module")
def control(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    cache = {"enable_quant": False}
    with serving(tmp_path_factory.mktemp("control"), _settings(cache)) as server:
        server.wait()
        yield server


def _settings(cache: dict) -> dict:
    # Log-probabilities of a whole vocabulary are in memory for each token of a step.
    return {"kv_cache": cache, "serving": {"max_context": CONTEXT}, "engine": {"max_num_batched_tokens": 512}}


def _gate(control: Server, candidate: str, seed: int = 0, suites: tuple = ("fidelity",)) -> Outcome:
    arms = [Arm(what, None, CONTEXT) for what in (control.url, candidate)]
    settings = SETTINGS.model_copy(update={"seed": seed, "suites": suites})
    return gate(arms[0], arms[1], settings, {}, lambda *_: None)


@pytest.mark.parametrize("name", RECIPES)
def test_a_broken_recipe_fails(control: Server, recipe: Path, tmp_path: Path, name: str) -> None:
    broken = faults.plant(recipe, tmp_path / "recipe", RECIPES[name])
    assert _gate(control, str(broken)).verdict is Verdict.FAIL


def test_the_recipe_of_another_model_is_refused_and_forged_to_fit_it_fails(
    control: Server, recipe: Path, tmp_path: Path
) -> None:
    others = [one for one in recipe.parent.parent.glob("*/lossless") if one.parent != recipe.parent]
    if not others:
        pytest.skip("no other model has been calibrated here")
    told = _gate(control, str(others[0]))
    assert told.verdict is Verdict.FAIL
    assert "the recipe was made for another model" in told.results[0].reason
    forged = faults.plant(recipe, tmp_path / "recipe", faults.of_another_model(others[0]))
    assert _gate(control, str(forged)).verdict is Verdict.FAIL


@pytest.mark.parametrize("fault", CODE)
def test_code_that_reads_otherwise_than_it_writes_fails(
    control: Server, recipe: Path, tmp_path: Path, fault: str
) -> None:
    import os

    path = os.pathsep.join([str(faults.SABOTAGE), os.environ.get("PYTHONPATH", "")])
    env = {"PYTHONPATH": path, "KVANT_TEST_FAULT": fault}
    with serving(tmp_path, _settings({"recipe": str(recipe)}), env=env) as server:
        server.wait()
        assert _gate(control, server.url).verdict is Verdict.FAIL


def test_lossless_passes_whatever_the_seed(control: Server, recipe: Path, tmp_path: Path) -> None:
    with serving(tmp_path, _settings({"recipe": str(recipe)})) as server:
        server.wait()
        suites = ("fidelity", "needle", "golden")
        found = [_gate(control, server.url, seed, suites) for seed in range(REPEATS)]
    assert [one.verdict for one in found] == [Verdict.PASS] * REPEATS
    assert {one.model for one in found} == {MODEL}
