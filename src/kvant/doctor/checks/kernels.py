"""What the processor can do, and which native kernels will run on it."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator

from kvant.doctor.finding import Finding, fail, ok, warn
from kvant.doctor.machine import Machine
from kvant.doctor.registry import check

FEATURES = (
    "avx2", "avx512f", "avx512bw", "avx512vl", "avx512_vnni", "avx512vbmi", "avx512_bf16", "avx_vnni",
    "amx_tile", "amx_int8", "amx_bf16", "asimd", "asimddp", "i8mm", "bf16", "sve",
)  # fmt: skip
"""The features that kernels ask for, by the kernel's (Linux's) names."""

X86 = ("x86_64", "AMD64")


@check
def processor(machine: Machine) -> Iterator[Finding]:
    has = [feature for feature in FEATURES if feature in machine.cpu_flags]
    text = f"{machine.cpu_model}: {', '.join(has) or 'no vector features that matter here'}"
    if platform.machine() in X86 and "avx2" not in has:
        yield fail("processor", f"{text}; vLLM's CPU kernels need AVX2", "serve on a processor with AVX2")
    else:
        yield ok("processor", text)


@check
def native_kernels(machine: Machine) -> Iterator[Finding]:
    answer = machine.probe["kernels"]
    if answer.error:
        why, _, mend = answer.error.rpartition(": ")
        built = "run " in mend
        yield fail(
            "kernels", why if built else answer.error, mend.removeprefix("run ") if built else "make setup"
        )
        return
    rows = answer.facts["kernels"]
    better = rows[: [row["name"] for row in rows].index(answer.facts["chosen"])]
    reasons = "".join(f"; not {row['name']}: {row['why_not']}" for row in better)
    yield ok("kernels", f"{answer.facts['chosen']} is chosen{reasons}")


@check
def runtime(machine: Machine) -> Iterator[Finding]:
    """The C and C++ runtimes in use: what a binary wheel can fail on."""
    libc = os.confstr("CS_GNU_LIBC_VERSION") if "CS_GNU_LIBC_VERSION" in os.confstr_names else None
    found = machine.probe["loaded"].facts.get("libstdcxx", [])
    names = [re.sub(r".*/(libstdc\+\+\.so\.)", r"\1", path) for path in found]
    if len(found) > 1:
        yield warn(
            "runtime",
            f"two C++ runtimes are loaded: {', '.join(found)}",
            "unset LD_LIBRARY_PATH and LD_PRELOAD, so that one remains",
        )
    else:
        yield ok("runtime", ", ".join([libc or "libc unknown", *names]))
