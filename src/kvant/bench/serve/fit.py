"""Which cases this machine holds, and how much KV memory both servers get for them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kvant.bench.serve.cases import Case
from kvant.bench.serve.model import Model

GIB = 1 << 30
SERVER = 2 * GIB
"""What the processes of one server take besides weights and KV memory."""

SPARE = GIB
"""Left to the rest of the machine."""

BLOCK = 128
"""The last block of a stream is counted as full; no default block is larger."""


@dataclass(frozen=True)
class Group:
    """Cases that the same servers answer, one after another."""

    cases: tuple[Case, ...]
    memory: int
    """KV memory of either side, GiB."""

    @property
    def max_model_len(self) -> int:
        return max(case.length for case in self.cases)

    @property
    def max_num_seqs(self) -> int:
        return max(case.streams for case in self.cases)


def memory_of(case: Case, model: Model) -> int:
    """KV memory in GiB that holds all streams in bf16, unless the case fixes it."""
    if case.memory:
        return case.memory
    blocks = case.streams * (-(-case.length // BLOCK) + 1) + 1  # vLLM keeps one back
    return -(-blocks * BLOCK * model.bytes_per_token // GIB)


def groups(
    cases: Iterable[Case], model: Model, servers: int, available: int
) -> tuple[list[Group], list[tuple[Case, str]]]:
    """Groups whose servers fit `available` bytes of RAM together; cases left out, with the reason."""
    fixed: dict[int, list[Case]] = {}
    left_out: list[tuple[Case, str]] = []
    for case in cases:
        memory = memory_of(case, model)
        need = servers * (memory * GIB + model.weight_bytes + SERVER) + SPARE
        if case.length > model.max_length:
            why = f"{case.length:,} tokens of prompt and answer, but the model ends at {model.max_length:,}"
            left_out.append((case, why))
        elif need > available:
            why = (
                f"{servers} servers with {memory} GiB of KV memory each need {need / GIB:.1f} GiB, "
                f"but {available / GIB:.1f} GiB of RAM are available"
            )
            left_out.append((case, why))
        else:
            fixed.setdefault(case.memory, []).append(case)
    found = [Group(tuple(some), max(memory_of(c, model) for c in some)) for some in fixed.values()]
    return found, left_out


def available_bytes() -> int:
    """RAM that can be had without swapping."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")) * 1024
