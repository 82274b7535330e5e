"""Which implementations exist, which this machine can run, and why not a better one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from kvant.errors import KernelError


@dataclass(frozen=True)
class Kernel:
    """One implementation of the native kernels; `why_not` is empty when it can run here."""

    name: str
    available: bool
    why_not: str


@lru_cache(maxsize=1)
def available() -> tuple[Kernel, ...]:
    """All implementations, best first; `KernelError` if the native module is not built."""
    try:
        from kvant.kernels import _native
    except ImportError as error:
        raise KernelError(f"the native kernels are not built ({error}): run `make setup`") from error
    return tuple(Kernel(*row) for row in _native.isas())


def select(name: str = "auto") -> tuple[Kernel, str]:
    """The kernel to run, and one sentence why not a better one (empty when it is the best).

    A kernel asked for by name that cannot run here is a `KernelError`, never replaced by another.
    """
    kernels = available()
    if name == "auto":
        chosen = next(kernel for kernel in kernels if kernel.available)
    else:
        found = [kernel for kernel in kernels if kernel.name == name]
        if not found:
            raise KernelError(
                f"kernel {name!r} does not exist; known: auto, {', '.join(k.name for k in kernels)}"
            )
        chosen = found[0]
        if not chosen.available:
            raise KernelError(f"kernel {name!r} cannot run on this machine: {chosen.why_not}")
    better = kernels[: kernels.index(chosen)]
    reasons = [f"{k.name}: {k.why_not or 'not asked for'}" for k in better]
    return chosen, "; ".join(reasons)
