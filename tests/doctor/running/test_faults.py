"""Faults planted in real engines are found, each by the check that is for it; a sound service has none."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kvant import models
from kvant.doctor import Finding, Level
from kvant.doctor.running import reading
from kvant.doctor.running.checks import quality
from kvant.doctor.running.examine import examine as examine_running
from kvant.doctor.running.patient import Patient
from kvant.launch.service import Service
from kvant.models.manifest import NAME as MANIFEST
from tests.e2e.server import MODEL, Server, serving
from tests.quality.gate import faults

CONTEXT = 2048
Findings = dict[str, Finding]


def settings(cache: dict[str, Any], **serving_: Any) -> dict[str, Any]:
    size = {} if "max_cache_blocks" in cache else {"memory_gib": 0.25}
    return {
        "kv_cache": {**size, **cache},
        "serving": {"max_context": CONTEXT, "max_batch": 8, **serving_},
        "engine": {"max_num_batched_tokens": 512},  # log-probabilities of a whole vocabulary take memory
    }


@contextmanager
def examined(
    folder: Path,
    wanted: dict[str, Any],
    faults_: str = "",
    baseline: str | None = None,
    asked: int = 0,
    **env: str,
) -> Iterator[Findings]:
    """What the doctor says of such a server, after so many short questions."""
    path = os.pathsep.join([str(faults.SABOTAGE), os.environ.get("PYTHONPATH", "")])
    planted = {"PYTHONPATH": path, "KVANT_TEST_FAULT": faults_} if faults_ else {}
    with serving(folder, wanted, env={**planted, **env}) as server:
        server.wait()
        for _ in range(asked):
            server.client().completions.create(model=MODEL, prompt="One, two,", max_tokens=4)
        patient = Patient.ask(server.url, baseline=baseline, log=folder / "log")
        yield {finding.what: finding for finding in examine_running(patient).findings}


@pytest.fixture(scope="module")
def control(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("control"), settings({"enable_quant": False})) as server:
        server.wait()
        yield server


def test_a_service_that_cannot_bind_is_explained_by_its_log(
    server: Server, tmp_path: Path, kvant_command
) -> None:
    """A start that fails for real: the port of the shared server is taken."""
    with serving(tmp_path, {"serving": {"port": server.port}}) as second:
        assert second.process.wait(60) != 0
    nobody = "http://127.0.0.1:9"
    done = kvant_command("doctor", "--url", nobody, "--log", str(tmp_path / "log"), "--json", "-")
    assert done.status == 1
    found = {one["what"]: one for one in json.loads(done.out)["findings"]}
    assert (found["start (log)"]["level"], "serving.port" in found["start (log)"]["mend"]) == ("fail", True)
    assert {found[what]["level"] for what in ("quality", "memory", "attention", "timeouts")} == {"unknown"}


@pytest.mark.slow
def test_context_helps_a_real_service(server: Server) -> None:
    found = reading.read(Service.find(server.url))
    assert found.harm.high < 0
    assert found.near < 5  # perplexity below 150, from 32 tokens of context on
    assert quality.by_itself(found).level is Level.OK


@pytest.mark.slow
def test_a_sound_service_has_no_fault(control: Server, recipe: Path, tmp_path: Path) -> None:
    wanted = settings({"recipe": str(recipe)})
    with examined(tmp_path, wanted, baseline=control.url) as found:
        failed = {what: one.why for what, one in found.items() if one.level is Level.FAIL}
        assert failed == {}
        for what in ("quality", "memory", "memory (copies)", "attention", "garbled output", "start"):
            assert found[what].level is Level.OK, found[what]


@pytest.mark.slow
def test_the_rotation_of_another_seed_is_a_loss_of_quality(
    control: Server, recipe: Path, tmp_path: Path
) -> None:
    with examined(tmp_path, settings({"recipe": str(recipe)}), "seed", control.url) as found:
        assert found["quality"].level is Level.FAIL
        assert "keys read otherwise than written" in found["quality"].why


@pytest.mark.slow
def test_a_layer_of_too_few_bits_is_a_loss_of_quality(control: Server, recipe: Path, tmp_path: Path) -> None:
    broken = faults.plant(recipe, tmp_path / "recipe", faults.one_layer_at_one_bit)
    folder = tmp_path / "server"
    folder.mkdir()
    with examined(folder, settings({"recipe": str(broken)}), baseline=control.url) as found:
        assert found["quality"].level is Level.FAIL
        assert "layers of too few bits" in found["quality"].why


@pytest.mark.slow
def test_a_second_copy_a_slow_path_and_too_many_threads_are_told_apart(recipe: Path, tmp_path: Path) -> None:
    """Three faults at once, each found by its own check."""
    threads = {"OMP_NUM_THREADS": "8", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
    wanted = settings({"recipe": str(recipe)})
    with examined(tmp_path, wanted, "copy,slow", **threads) as found:
        assert found["memory (copies)"].level is Level.FAIL, found["memory (copies)"]
        assert (found["attention"].level, "slow path" in found["attention"].why) == (Level.WARN, True)
        assert found["throughput (threads)"].level is Level.WARN, found["throughput (threads)"]
        assert found["memory"].level is Level.OK


@pytest.mark.slow
def test_a_tiny_pool_and_large_blocks_are_named(tmp_path: Path) -> None:
    cache = {"preset": "int8", "block_size": 1024, "max_cache_blocks": 3}
    with examined(tmp_path, settings(cache, max_context=2000), asked=20) as found:
        ramping = found["memory while ramping"]
        assert ramping.level in (Level.WARN, Level.FAIL), ramping
        assert "max_cache_blocks" in ramping.mend
        assert found["memory while ramping (fragmentation)"].level is Level.WARN


@pytest.mark.slow
def test_broken_weights_are_not_taken_for_a_broken_cache(tmp_path: Path) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    folder = tmp_path / "broken"
    shutil.copytree(Path(str(models.resolve(MODEL))), folder)
    (folder / MANIFEST).unlink()
    weights = load_file(folder / "model.safetensors")
    generator = torch.Generator().manual_seed(0)
    for name, one in weights.items():
        if "down_proj" in name:
            one.copy_(one[torch.randperm(len(one), generator=generator)])
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    wanted = settings({"preset": "int8"}) | {"model": {"path": str(folder)}}
    with examined(tmp_path, wanted) as found:
        assert (found["quality"].level, "weights" in found["quality"].why) == (Level.FAIL, True)
        assert found["garbled output"].level is Level.FAIL, found["garbled output"]
        assert "not the cache" in found["garbled output"].why
