"""The real command on the real environment: green as it is, red once something is broken on purpose."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kvant.doctor import Examination, report
from kvant.errors import ConfigError

KVANT = [sys.executable, "-c", "from kvant.cli import main; main()"]


def run(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*KVANT, "doctor", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "200", **env},
    )


def by_name(found: dict[str, Any]) -> dict[str, dict[str, str]]:
    return {finding["what"]: finding for finding in found["findings"]}


def test_this_environment_is_ready(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    result = run("--json", str(file))
    found = json.loads(file.read_text())
    faults = [finding for finding in found["findings"] if finding["level"] == "fail"]
    assert not faults
    assert result.returncode == 0
    assert found["failed"] is False
    assert "ready to serve" in result.stdout
    assert {"vllm", "torch", "transformers", "kernels", "openmp", "vllm plugin"} <= by_name(found).keys()
    assert found["device"]["cores"]


@pytest.mark.slow
def test_a_planted_trap_and_a_plugin_left_out_fail(tmp_path: Path) -> None:
    planted = tmp_path / "torchvision-0.99.0.dist-info"
    planted.mkdir()
    (planted / "METADATA").write_text("Metadata-Version: 2.1\nName: torchvision\nVersion: 0.99.0\n")
    (tmp_path / "torchvision.py").write_text("raise RuntimeError('operator torchvision::nms does not exist')")
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    result = run("--json", "-", PYTHONPATH=path, VLLM_PLUGINS="other")
    assert result.returncode == 1
    found = json.loads(result.stdout)
    assert found["failed"] is True
    trap = by_name(found)["torchvision"]
    assert trap["level"] == "fail"
    assert "0.99.0" in trap["why"]
    assert "torchvision::nms" in trap["why"]
    assert trap["mend"].startswith("pip uninstall -y torchvision")
    assert by_name(found)["VLLM_PLUGINS"]["level"] == "fail"


def test_a_report_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    file = tmp_path / "none" / "report.json"
    with pytest.raises(ConfigError, match=r"cannot write --json .*report\.json: No such file"):
        report.write_json(Examination({}, ()), file)
