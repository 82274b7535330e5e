"""Real rollouts on SmolLM2: the sound preset goes to full, every planted fault is rolled back in shadow.

What it took (`pytest -m slow -rP`) stands in docs/release.md.
"""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from kvant.gateway.release import Release
from kvant.gateway.settings import GatewaySettings
from tests.e2e.server import KVANT, MODEL, Server, free_port, serving, until
from tests.gateway.running import Running
from tests.quality.gate import faults
from tests.quality.gate.conftest import recipe

__all__ = ["recipe"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(5400)]

EXAMPLE = Path(__file__).parents[2] / "examples" / "release"
MOST = 200
"""Compared requests within which a fault is to be seen."""
HURRY = 3600.0

RECIPES = {
    "sinks off": faults.sinks_off,
    "one layer at one bit": faults.one_layer_at_one_bit,
    "transform off": faults.transform_off,
}


def _engine(cache: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        "kv_cache": {"memory_gib": 0.5, **cache},
        "serving": {"max_context": 2048, "max_batch": 8},
        "engine": {"max_num_batched_tokens": 512},
    }


@pytest.fixture(scope="module")
def baseline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("baseline"), _engine({"enable_quant": False})) as server:
        server.wait()
        yield server


@contextmanager
def asked(url: str, until_: Callable[[], bool]) -> Iterator[None]:
    """The traffic of the example, two questions at a time, until something is so."""
    traffic = runpy.run_path(str(EXAMPLE / "traffic.py"))["Traffic"](url, MODEL, 1500, 32, 0)

    def ask() -> None:
        while not until_():
            traffic.ask()

    threads = [threading.Thread(target=ask, daemon=True) for _ in range(2)]
    for one in threads:
        one.start()
    yield
    for one in threads:
        one.join()
    assert not traffic.failed


def _released(baseline: Server, candidate: Server, folder: Path) -> dict[str, Any]:
    """The status when the candidate was rolled back, or `MOST` requests had been compared; with the plan that
    is the default, every call copied."""
    settings = GatewaySettings.model_validate(
        {
            "listen": {"port": free_port()},
            "arms": {"baseline": {"urls": [baseline.url]}, "candidate": {"urls": [candidate.url]}},
            "shadow": {"share": 1.0, "tokens_per_minute": 10_000_000, "seconds": 600},
            "comparing": {"share": 1.0, "per_minute": 10_000, "answer": 64, "seconds": 600},
            "timeouts": {"first_token": 600, "between_tokens": 600},
            "rollout": {"state": str(folder / "rollout.db")},
        }
    )
    assert settings.arms.candidate is not None
    arm = settings.arms.candidate
    with Running(settings, lambda gateway: Release(gateway, arm)) as gateway:
        assert httpx.post(f"{gateway.url}/rollout/start").is_success

        def status() -> dict[str, Any]:
            return dict(httpx.get(f"{gateway.url}/rollout", timeout=60).json())

        def over() -> bool:
            found = status()
            return found["phase"] == "rolled_back" or found["counts"]["compared"]["total"] >= MOST

        with asked(gateway.url, over):
            until(over, HURRY, every=1.0)
        return status()


def _is_rolled_back_in_shadow(found: dict[str, Any], name: str) -> None:
    compared = found["counts"]["compared"]["total"]
    seen = {quantity: one["candidate"] for quantity, one in found["quantities"].items()}
    print(f"{name}: {found['phase']} after {compared}: {found['reason']}; {seen}")
    assert found["phase"] == "rolled_back", found["quantities"]
    assert [one["phase"] for one in found["history"]] == ["shadow", "rolled_back"]
    assert compared <= MOST
    assert found["counts"]["served.candidate"]["total"] == 0


@pytest.mark.parametrize("name", RECIPES)
def test_a_broken_recipe_is_rolled_back(baseline: Server, recipe: Path, tmp_path: Path, name: str) -> None:
    broken = faults.plant(recipe, tmp_path / "recipe", RECIPES[name])
    with serving(tmp_path, _engine({"recipe": str(broken)})) as candidate:
        candidate.wait()
        _is_rolled_back_in_shadow(_released(baseline, candidate, tmp_path), name)


@pytest.mark.parametrize("fault", ["codebook", "seed"])
def test_code_that_reads_otherwise_than_it_writes_is_rolled_back(
    baseline: Server, recipe: Path, tmp_path: Path, fault: str
) -> None:
    path = os.pathsep.join([str(faults.SABOTAGE), os.environ.get("PYTHONPATH", "")])
    env = {"PYTHONPATH": path, "KVANT_TEST_FAULT": fault}
    with serving(tmp_path, _engine({"recipe": str(recipe)}), env=env) as candidate:
        candidate.wait()
        _is_rolled_back_in_shadow(_released(baseline, candidate, tmp_path), fault)


def test_a_recipe_of_another_model_forged_to_fit_is_rolled_back(
    baseline: Server, recipe: Path, tmp_path: Path
) -> None:
    others = [one for one in recipe.parent.parent.glob("*/lossless") if one.parent != recipe.parent]
    if not others:
        pytest.skip("no other model has been calibrated here")
    forged = faults.plant(recipe, tmp_path / "recipe", faults.of_another_model(others[0]))
    with serving(tmp_path, _engine({"recipe": str(forged)})) as candidate:
        candidate.wait()
        _is_rolled_back_in_shadow(_released(baseline, candidate, tmp_path), "another model's")


def test_the_walk_through(tmp_path: Path) -> None:
    """docs/release.md, command by command: 16 bits, shadow, canary, full, and back."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    words = [
        KVANT,
        "gateway",
        "-c",
        str(EXAMPLE / "gateway.yaml"),
        f"--set=listen.port={port}",
    ]
    env = {**os.environ, "OMP_WAIT_POLICY": "passive"}
    log = (tmp_path / "log").open("wb")
    gateway = subprocess.Popen(words, cwd=tmp_path, env=env, stdout=log, stderr=subprocess.STDOUT)
    traffic = None
    try:
        until(lambda: _ups(url) == {"baseline": 1, "candidate": 1}, 900, (tmp_path / "log").read_text)
        traffic = subprocess.Popen([sys.executable, str(EXAMPLE / "traffic.py"), "--url", url], env=env)
        _kvant("rollout", "start", "--url", url)
        until(lambda: _status(url)["phase"] in ("full", "rolled_back"), HURRY, every=2.0)
        found = _status(url)
        assert [one["phase"] for one in found["history"]] == ["shadow", "canary", "canary", "full"], found
        time.sleep(5)
        assert "rolled_back" in _kvant("rollout", "rollback", "--url", url)
        assert _status(url)["weight"] == 0
        assert "whole" in _kvant("gateway", "audit", str(tmp_path / "audit.jsonl"))
    finally:
        for process in filter(None, (traffic, gateway)):
            process.terminate()
            process.wait(60)
        log.close()


def _kvant(*words: str) -> str:
    done = subprocess.run([KVANT, *words], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _ups(url: str) -> dict[str, int]:
    try:
        return dict(httpx.get(f"{url}/ready", timeout=30).json()["replicas_up"])
    except httpx.TransportError:
        return {}


def _status(url: str) -> dict[str, Any]:
    return dict(httpx.get(f"{url}/rollout", timeout=60).json())
