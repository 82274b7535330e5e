"""Import what may be broken, in a process of its own: `python -m kvant.doctor.probe FILE`.

A library that crashes at import takes this process down, not the doctor, and the step it died in is
known: each step writes a line before it starts and one when it is done.
"""

from __future__ import annotations

import importlib
import json
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from kvant.errors import KvantError

TIMEOUT = 180.0
TRAP = ("torchvision", "torchaudio", "torchcodec")
_OPENMP = re.compile(r"^lib(gomp|iomp|omp)[^/]*\.so")


@dataclass(frozen=True)
class Answer:
    """What one step found, or why it could not."""

    facts: dict[str, Any]
    error: str = ""


def ask() -> dict[str, Answer]:
    """Run the steps in another process; a step that was not reached is an `Answer` with its error."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "probe.jsonl"
        log.touch()
        command = [sys.executable, "-m", "kvant.doctor.probe", str(log)]
        try:
            result = subprocess.run(command, capture_output=True, timeout=TIMEOUT, check=False)
            end = _ending(result.returncode)
        except subprocess.TimeoutExpired:
            end = f"did not end within {TIMEOUT:.0f} s"
        rows = [json.loads(line) for line in log.read_text().splitlines()]
    answers = {row["step"]: Answer(row["facts"], row["error"]) for row in rows if "facts" in row}
    begun = [row["step"] for row in rows]
    for name in STEPS:
        if name not in answers:
            error = end if name in begun else f"not tried: the step before it {end}"
            answers[name] = Answer({}, error)
    return answers


def _ending(status: int) -> str:
    return f"crashed with {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"


def main(log: Path) -> None:
    with log.open("a", buffering=1) as out:
        for name, step in STEPS.items():
            print(json.dumps({"step": name}), file=out)
            facts: dict[str, Any] = {}
            error = ""
            try:
                facts = step()
            except KvantError as problem:
                error = str(problem)
            # A library may raise anything, SystemExit included, while it is imported.
            except BaseException as problem:
                error = f"{type(problem).__name__}: {problem}".splitlines()[0]
            print(json.dumps({"step": name, "facts": facts, "error": error}), file=out)


def _torch() -> dict[str, Any]:
    torch = importlib.import_module("torch")
    cuda = torch.version.cuda
    names = [torch.cuda.get_device_name(n) for n in range(torch.cuda.device_count())] if cuda else []
    return {"threads": torch.get_num_threads(), "cuda": cuda, "gpus": names}


def _kernels() -> dict[str, Any]:
    from kvant.kernels import available, select

    rows = [{"name": k.name, "available": k.available, "why_not": k.why_not} for k in available()]
    return {"kernels": rows, "chosen": select()[0].name}


def _trap() -> dict[str, Any]:
    broken = {}
    for name in TRAP:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as problem:
            if problem.name != name:
                broken[name] = str(problem)
        except Exception as problem:
            broken[name] = str(problem).splitlines()[0]
    return {"broken": broken}


def _transformers() -> dict[str, Any]:
    importlib.import_module("transformers.models.llama.modeling_llama")
    return {}


def _vllm() -> dict[str, Any]:
    platforms = importlib.import_module("vllm.platforms")
    platforms.current_platform.import_kernels()
    return {"device": platforms.current_platform.device_name}


def _plugin() -> dict[str, Any]:
    found = [point for point in entry_points(group="vllm.general_plugins") if point.name == "kvant"]
    for point in found:
        point.load()()
    return {"registered": sorted({point.value for point in found})}


def _loaded() -> dict[str, Any]:
    paths = {line.split(maxsplit=5)[5] for line in _maps() if line.count("/")}
    real = sorted({str(Path(path).resolve()) for path in paths})
    return {
        "openmp": [path for path in real if _OPENMP.match(Path(path).name)],
        "libstdcxx": [path for path in real if Path(path).name.startswith("libstdc++")],
    }


def _maps() -> list[str]:
    try:
        return Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return []


# torch first: its OpenMP runtime is the one that everything else must share; last, what was loaded.
STEPS: dict[str, Callable[[], dict[str, Any]]] = {
    "torch": _torch,
    "kernels": _kernels,
    "trap": _trap,
    "transformers": _transformers,
    "vllm": _vllm,
    "plugin": _plugin,
    "loaded": _loaded,
}

if __name__ == "__main__":
    main(Path(sys.argv[1]))
