"""`kvant calibrate` before a model is loaded, and what it prints at the end."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvant.recipes import load
from tests.recipes import made

pytest.importorskip("transformers")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("owner/name",), "'owner/name' is a hub id: a recipe is pinned to files; give the model's folder"),
        (("x/y/z",), "model folder 'x/y/z' does not exist"),
        (("x", "--transform", "rotation"), "--transform 'rotation': is neither gm nor diag"),
    ],
)
def test_what_cannot_be_calibrated_is_refused(kvant_command, words, message):
    result = kvant_command("calibrate", *words)
    assert (result.status, result.out) == (2, "")
    assert result.err.startswith(f"error: {message}")


def test_it_prints_the_folder_and_the_line_that_serves_it(kvant_command, tmp_path, monkeypatch):
    monkeypatch.setenv("KVANT_HOME", str(tmp_path / "home"))
    model = made.model(tmp_path / "tiny")
    words = (
        "--preset",
        "int8",
        "--transform",
        "diag",
        "--max-position",
        "256",
        "--output",
        str(tmp_path / "r"),
    )
    result = kvant_command("calibrate", str(model), *words)
    assert result.status == 0
    folder, _, line = result.out.splitlines()
    assert load(Path(folder)).facts.calibration.transform == "diag"
    assert line == f"kvant serve {model} --recipe {folder}"
    assert "2,048 of 2,048 tokens" in result.err
