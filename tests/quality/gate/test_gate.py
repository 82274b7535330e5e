"""The gate against real servers: an arm passes against itself, a worse cache fails; statuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

import kvant.quality.gate.run
from kvant.errors import ConfigError
from kvant.quality.gate.arm import Arm
from tests.e2e.server import MODEL, Server

SMALL: dict[str, Any] = {
    "concurrency": 2,
    "max_context": 1024,
    "fidelity": {"texts": 2, "tokens": 512, "perplexity": 0.2, "top1": 0.2},
    "needle": {"lengths": [256], "depths": [0.0, 0.5], "keys": [1], "trials": 5, "loss": 0.45},
    "golden": {"prompts": 8, "tokens": 12, "context": 128, "parted": 0.7},
}


@pytest.fixture
def small(tmp_path: Path) -> str:
    file = tmp_path / "gate.yaml"
    file.write_text(json.dumps(SMALL))  # JSON is YAML
    return str(file)


def test_an_arm_passes_against_itself(kvant_command, server: Server, small: str, tmp_path: Path) -> None:
    out, page, xml = (tmp_path / name for name in ("g.json", "g.html", "g.xml"))
    done = kvant_command(
        "gate", "--baseline", server.url, "--candidate", server.url, "-c", small, "--json", str(out),
        "--html", str(page), "--junit", str(xml), "--language", "zh",
    )  # fmt: skip
    assert done.status == 0, done.out + done.err
    assert "结论: 通过" in done.out
    assert "baseline: needle: 10 of 10" in done.err  # no terminal: a line a step
    found = json.loads(out.read_text())
    assert (found["verdict"], found["model"]) == ("pass", MODEL)
    assert found["facts"]["note"].startswith("both arms are one server")
    assert "note: both arms are one server" in done.out
    fidelity, needle, golden = found["results"]
    assert 0 <= fidelity["judgement"]["checks"][0]["value"] < 0.003
    assert fidelity["judgement"]["scores"]["perplexity"][0] < 60  # it has read the text
    assert needle["judgement"]["scores"]["right"][0] >= 0.75  # there was something to lose
    assert golden["n"] == golden["planned"] == 8
    assert '<html lang="zh">' in page.read_text()
    assert [one.get("failures") for one in ET.parse(xml).getroot()] == ["0", "0", "0"]


@pytest.mark.slow
def test_a_cache_that_moves_predictions_fails(
    kvant_command, server: Server, small: str, tmp_path: Path
) -> None:
    """`founding` needs no calibration and has a KL of .14; the gate starts and ends its server itself."""
    out = tmp_path / "g.json"
    done = kvant_command(
        "gate", "--baseline", server.url, "--candidate", "founding", "-c", small, "--suites", "fidelity",
        "--json", str(out),
    )  # fmt: skip
    assert done.status == 1, done.out + done.err
    (fidelity,) = json.loads(out.read_text())["results"]
    kl = fidelity["judgement"]["checks"][0]
    assert kl["verdict"] == "fail"
    assert 0.03 < kl["low"] < kl["value"] < kl["high"] < 1
    assert fidelity["judgement"]["examples"][0]["context"]


def test_a_candidate_that_does_not_serve_has_failed_and_a_baseline_is_an_error(
    kvant_command, server: Server, small: str
) -> None:
    nobody = "http://127.0.0.1:9"
    arguments = ("-c", small, "--suites", "needle")
    failed = kvant_command("gate", "--baseline", server.url, "--candidate", nobody, *arguments)
    assert (failed.status, "the candidate does not serve" in failed.out) == (1, True)
    broken = kvant_command("gate", "--baseline", nobody, "--candidate", server.url, *arguments)
    assert (broken.status, "error: http://127.0.0.1:9/v1: does not answer" in broken.err) == (3, True)


def test_misuse_looks_like_no_verdict(kvant_command, tmp_path: Path) -> None:
    assert kvant_command("gate", "--no-such-flag").status == 3
    told = kvant_command("gate", "--candidate", "losless")
    assert (told.status, "did you mean lossless?" in told.err) == (3, True)
    assert kvant_command("gate", "--json", str(tmp_path / "no" / "x.json")).status == 3


def test_what_nobody_foresaw_looks_like_no_verdict(kvant_command, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise ZeroDivisionError("unforeseen")

    monkeypatch.setattr(kvant.quality.gate.run, "gate", broken)
    told = kvant_command("gate", "--baseline", "http://127.0.0.1:9", "--candidate", "http://127.0.0.1:9")
    assert (told.status, "ZeroDivisionError: unforeseen" in told.err) == (3, True)


def test_an_arm_is_a_url_a_preset_or_a_recipe(tmp_path: Path) -> None:
    assert Arm("https://host/v1", None, 512).url == "https://host/v1"
    with pytest.raises(ConfigError, match=r"is no recipe: the folder has no recipe\.yaml"):
        Arm(str(tmp_path), None, 512)
