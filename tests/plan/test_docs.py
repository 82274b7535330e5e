"""docs/plan.md: its output is what the command prints, its table has every option."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path

import pytest

from kvant.cli import main, plan
from tests.plan.models import QWEN3_4B

PAGE = (Path(__file__).parents[2] / "docs" / "plan.md").read_text(encoding="utf-8")


def test_the_output_is_what_the_command_prints(tmp_path, monkeypatch, capsys):
    (tmp_path / "qwen3-4b").mkdir()
    (tmp_path / "qwen3-4b" / "config.json").write_text(json.dumps(QWEN3_4B))
    monkeypatch.chdir(tmp_path)
    shown = PAGE.split("```console\n")[2].split("```")[0]
    _, first, second = shown.split("$ kvant ")
    for text, status in ((first, 0), (second, 1)):
        command, _, output = text.partition("\n")
        with pytest.raises(SystemExit) as exit_:
            main(command.split())
        assert exit_.value.code == status
        printed = capsys.readouterr().out
        assert printed.endswith(output.removeprefix("...\n"))


def test_every_option_is_in_the_table():
    names = {name.rstrip("_").replace("_file", "") for name in inspect.signature(plan.plan).parameters}
    shown = set(re.findall(r"--([a-z-]+)", PAGE))
    assert {name.replace("_", "-") for name in names} - shown == {"model"}
