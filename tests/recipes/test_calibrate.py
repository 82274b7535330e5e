"""From a model folder to a recipe, through real torch on a tiny model."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kvant.errors import CalibrationError
from kvant.models import manifest
from kvant.recipes import child, load, place
from kvant.recipes.calibrate import Job, calibrate
from kvant.recipes.recipe import CARD, RECIPE, TRANSFORMS
from kvant.recipes.traffic import Reservoir
from kvant.transforms.calibrated import Calibration
from tests.recipes import made

pytest.importorskip("torch")
pytest.importorskip("transformers")

MakeJob = Callable[..., Job]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made.model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture
def job(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeJob:
    """A calibration of the tiny model over 300 positions, in a cache of its own."""
    monkeypatch.setenv("KVANT_HOME", str(tmp_path / "home"))

    def make(**changes: Any) -> Job:
        digest = manifest.verify(model, trust=True)
        fields = {"preset": "int8", "transform": "gm", "max_position": 300}
        return Job(model=str(model), digest=digest, name="tiny", **{**fields, **changes})

    return make


def test_a_recipe_is_made_found_and_not_made_twice(job: MakeJob) -> None:
    steps: list[tuple[str, float]] = []
    folder = calibrate(job(), lambda step, fraction: steps.append((step, fraction)))
    assert folder == place.folder(job().digest, "int8")
    assert sorted(path.name for path in folder.iterdir()) == sorted([RECIPE, TRANSFORMS, CARD])
    recipe = load(folder)
    recipe.check_model(job().digest, 3, 2, [16])
    made_ = recipe.facts.calibration
    assert made_ is not None
    assert (made_.transform, made_.max_position) == ("gm", 300)
    assert made_.corpora == ("english", "code", "chinese")
    assert ("2,400 of 2,400 tokens", 1.0) in steps
    assert steps[-1] == ("5,760 of 5,760 tokens for the range of errors", 1.0)
    assert "`int8`, `int8`" in (folder / CARD).read_text()
    assert made_.sha256 in (folder / CARD).read_text()

    with pytest.raises(CalibrationError, match="holds a recipe already: --force replaces it"):
        calibrate(job())
    # Another preset of the model reads no text again.
    steps.clear()
    other = calibrate(job(preset="founding", transform="diag"), lambda *step: steps.append(step))
    assert not any("tokens" in step for step, _ in steps)
    first, second = (Calibration.load(one / TRANSFORMS) for one in (folder, other))
    np.testing.assert_array_equal(first.layers[2].mean, second.layers[2].mean)
    assert not np.allclose(first.layers[2].matrix, second.layers[2].matrix)
    again = calibrate(job(force=True))
    assert load(again).spec.calibration_digest == made_.sha256


KILL = """
import json, os, signal, sys
from kvant.recipes import moments
save = moments.Moments.save
def killed(self, path, identity):
    save(self, path, identity)
    if self.done == 2:
        os.kill(os.getpid(), signal.SIGKILL)
moments.Moments.save = killed
from kvant.recipes.calibrate import Job, calibrate
calibrate(Job(**json.loads(sys.argv[1])))
"""


def test_a_killed_run_goes_on_and_ends_the_same(
    job: MakeJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = str(Path(child.__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", KILL, json.dumps(asdict(job()))],
        env=os.environ | {"PYTHONPATH": source},
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    assert not place.folder(job().digest, "int8").exists()
    steps: list[float] = []
    resumed = (
        calibrate(job(), lambda step, fraction: "of 2,400" in step and steps.append(fraction)) / TRANSFORMS
    )
    assert min(steps) > 0.3

    monkeypatch.setenv("KVANT_HOME", str(tmp_path / "elsewhere"))
    assert (calibrate(job()) / TRANSFORMS).read_bytes() == resumed.read_bytes()


def test_sampled_prompts_are_read_besides_the_shipped_text(job: MakeJob, tmp_path: Path) -> None:
    file = tmp_path / "traffic.jsonl"
    Reservoir(job().digest, [[n % 256 for n in range(300)]] * 9).save(file)
    made_ = load(calibrate(job(traffic=str(file)))).facts.calibration
    assert made_ is not None
    assert made_.corpora == ("english", "code", "chinese", "traffic")
    Reservoir("f" * 64, [[1]]).save(file)
    with pytest.raises(CalibrationError, match="was sampled from another model"):
        calibrate(job(traffic=str(file), force=True))


def test_own_text_and_an_own_folder(job: MakeJob, tmp_path: Path) -> None:
    text = tmp_path / "mine.txt"
    text.write_text("To be calibrated on. " * 100)
    output = tmp_path / "out" / "recipe"
    assert calibrate(job(data=(str(text),), output=str(output))) == output
    made_ = load(output).facts.calibration
    assert made_ is not None
    assert made_.corpora == ("mine.txt",)
    assert not place.folder(job().digest, "int8").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"transform": ""}, "preset int8 needs no calibration: `kvant serve tiny --preset int8`"),
        ({"preset": "maxx"}, "no preset is named 'maxx'.*did you mean max"),
        ({"max_position": 513}, "--max-position 513: tiny has 512 positions"),
        ({"data": ("/nowhere.txt",)}, "--data /nowhere.txt: cannot be read"),
        ({"output": "{model}/recipe"}, "is inside the model's folder"),
        ({"output": "{tmp}"}, "is there and is no recipe: choose another --output"),
    ],
)
def test_what_cannot_be_is_refused(
    job: MakeJob, model: Path, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    if "output" in changes:
        changes = {"output": changes["output"].format(model=model, tmp=tmp_path)}
    with pytest.raises(CalibrationError, match=message):
        calibrate(job(**changes))


def test_too_little_text_is_refused(job: MakeJob, tmp_path: Path) -> None:
    (tmp_path / "short").write_text("Hello")
    with pytest.raises(CalibrationError, match="the texts have 5 tokens"):
        calibrate(job(data=(str(tmp_path / "short"),)))


@pytest.mark.parametrize(
    ("family", "changes", "reason"),
    [
        ("T5", {"d_model": 64}, "an encoder-decoder model has non-causal attention"),
        ("DeepseekV3", {}, r"multi-head latent attention \(MLA\)"),
        ("Mamba", {"hidden_size": 32}, "its attention does not go through transformers' attention interface"),
    ],
)
def test_architectures_without_such_a_cache_are_refused(
    job: MakeJob, tmp_path: Path, family: str, changes: dict[str, Any], reason: str
) -> None:
    import transformers

    if family == "Mamba":
        folder = made.model(tmp_path / family, family, **changes)
    else:
        folder = tmp_path / family
        getattr(transformers, f"{family}Config")(**changes).save_pretrained(folder)
    with pytest.raises(CalibrationError, match=f"{family} cannot be calibrated: {reason}"):
        calibrate(replace(job(), model=str(folder), digest="cd" * 32))


def test_a_model_of_an_unknown_kind_is_refused(job: MakeJob, tmp_path: Path) -> None:
    folder = tmp_path / "odd"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "odd", "auto_map": {"AutoConfig": "odd.Odd"}}')
    with pytest.raises(CalibrationError, match="odd cannot be calibrated: transformers cannot read"):
        calibrate(replace(job(), model=str(folder)))


def test_the_child_passes_the_refusal_on(job: MakeJob) -> None:
    with pytest.raises(CalibrationError, match="preset int8 needs no calibration"):
        child.run(job(transform=""))
