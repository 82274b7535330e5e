"""Result files are whole or not there, and a file that cannot be written is told beforehand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvant.bench import result
from kvant.errors import ConfigError


def test_a_file_is_replaced_and_nothing_else_is_left(tmp_path):
    file = tmp_path / "result.json"
    file.write_text("old")
    result.write(file, {"rows": [1]})
    assert json.loads(file.read_text()) == {"rows": [1]}
    assert list(tmp_path.iterdir()) == [file]


def test_what_cannot_be_json_leaves_the_old_file(tmp_path):
    file = tmp_path / "result.json"
    file.write_text("old")
    with pytest.raises(TypeError):
        result.write(file, {"rows": [object()]})
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_a_dash_is_stdout(capsys):
    result.check(Path("-"))
    result.write(Path("-"), {"rows": []})
    assert json.loads(capsys.readouterr().out) == {"rows": []}


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    file = tmp_path / "none" / "result.json"
    for refuse in (lambda: result.check(file), lambda: result.write(file, {})):
        with pytest.raises(ConfigError, match=f"cannot write --json {file}"):
            refuse()


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "x").write_text("")
    with pytest.raises(ConfigError, match="cannot write --html"):
        result.check(tmp_path / "x" / "y", "--html")


def test_a_figure_that_is_not_known_is_null(tmp_path):
    file = tmp_path / "r.json"
    result.write(file, {"rows": [{"kl": 0.5, "kl_se": float("nan")}], "spread": (1.0, float("inf"))})
    assert json.loads(file.read_text()) == {"rows": [{"kl": 0.5, "kl_se": None}], "spread": [1.0, None]}
