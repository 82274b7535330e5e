"""Libraries that break or crash at import are named, and do not take the doctor with them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kvant.doctor import probe


def plant(folder: Path, name: str, source: str) -> None:
    (folder / f"{name}.py").write_text(source)


def test_a_crash_is_named_with_its_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    plant(tmp_path, "torchaudio", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    plant(tmp_path, "torch", "class version: cuda = None\ndef get_num_threads(): return 3")
    answers = probe.ask()
    assert answers["torch"] == probe.Answer({"threads": 3, "cuda": None, "gpus": []})
    assert answers["trap"].error == "crashed with SIGSEGV"
    assert answers["plugin"].error == "not tried: the step before it crashed with SIGSEGV"


def test_an_import_that_ends_the_process_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    plant(tmp_path, "torch", "raise SystemExit('no torch for you')")
    plant(tmp_path, "vllm", "")
    plant(tmp_path, "transformers", "raise RuntimeError('operator torchvision::nms does not exist')")
    answers = probe.ask()
    assert answers["torch"].error == "SystemExit: no torch for you"
    assert answers["transformers"].error == "RuntimeError: operator torchvision::nms does not exist"
    assert "No module named 'vllm.platforms'" in answers["vllm"].error


SECOND_RUNTIME = """
import ctypes, json, sys, torch
from kvant.doctor import probe
before = probe.STEPS["loaded"]()["openmp"]
ctypes.CDLL(sys.argv[1])
print(json.dumps([before, probe.STEPS["loaded"]()["openmp"]]))
"""


def test_a_second_openmp_runtime_is_seen(tmp_path: Path) -> None:
    def run(library: str) -> list[list[str]]:
        command = [sys.executable, "-c", SECOND_RUNTIME, library]
        result: list[list[str]] = json.loads(
            subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
        )
        return result

    import torch

    bundled = sorted((Path(torch.__file__).parent / "lib").glob("libgomp*.so*"))[0]
    copy = shutil.copy(bundled, tmp_path / bundled.name)
    before, after = run(str(copy))
    assert len(before) == 1
    assert sorted(after) == sorted([*before, str(copy)])
