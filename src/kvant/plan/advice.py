"""Nothing fits: why, and the smallest change of each kind that would mend it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kvant.plan.contexts import Contexts
from kvant.plan.fit import fit
from kvant.plan.precision import DEFAULT, Precision, parse
from kvant.plan.request import Request
from kvant.plan.room import GIB, Room

MOST_RANKS = 64
STEP = 0.1
"""Of a GiB: as finely as memory is said."""


def reason(asked: Request) -> str:
    """One sentence: what is too large for what."""
    model, room, wanted = asked.model, asked.room, asked.concurrency
    served = [one for one in asked.precisions if not one.refusal(model)]
    if not served:
        return "; ".join(f"{one.name}: {one.refusal(model)}" for one in asked.precisions)
    seqs = asked.seqs or wanted
    left = room.pool(model, seqs)
    if left <= 0:
        need = (room.weights(model) + room.activations(model, seqs)) / GIB + room.overhead_gib
        return (
            f"weights, activations and overhead take {need:.1f} GiB of each device, which has "
            f"{room.memory() / GIB:.1f} GiB for vLLM"
        )
    best = max(served, key=lambda one: _held(asked, one))
    what = f"{wanted} requests" if wanted > 1 else "one request"
    return (
        f"{what} of {asked.contexts.longest:,} tokens at most do not fit {left / GIB:.2f} GiB of cache with "
        f"a margin of {room.margin:.0%}: {best.name}, the densest asked for, holds {_held(asked, best)}"
    )


def changes(asked: Request) -> list[str]:
    """Each alone is enough."""
    model, room, contexts, wanted = asked.model, asked.room, asked.contexts, asked.concurrency

    def enough(**changed: Any) -> bool:
        other = replace(asked, **changed)
        return any(_held(other, one) >= wanted for one in other.precisions)

    found = []
    tried = {one.name for one in asked.precisions}
    others = [one for one in parse(DEFAULT, block_size=room.block_size) if one.name not in tried]
    others = [one for one in others if enough(precisions=[one])]
    if others:
        most = max(others, key=lambda one: one.bits(model))
        found.append(f"--precision {most.name}")
    shorter = _largest(lambda n: enough(contexts=_cut(contexts, n)), contexts.longest - 1)
    if shorter:
        found.append(f"requests of {shorter:,} tokens at most (--context {shorter})")
    fewer = max(_held(asked, one) for one in asked.precisions)
    if fewer:
        found.append(f"--concurrency {fewer}")
    more = [n for n in range(room.ranks + 1, MOST_RANKS + 1) if model.heads % n == 0]
    ranks = next((n for n in more if enough(room=replace(room, ranks=n))), None)
    if ranks and room.kv_memory is None:
        found.append(f"--devices {ranks}")
    return found + _memory(room, lambda where: enough(room=where))


def _held(asked: Request, precision: Precision) -> int:
    return fit(asked.model, precision, asked.contexts, asked.room, asked.seqs).max_num_seqs


def _memory(room: Room, enough: Callable[[Room], bool]) -> list[str]:
    def larger(steps: int) -> Room:
        more = steps * STEP
        if room.kv_memory is not None:
            return replace(room, kv_memory=room.kv_memory + int(more * GIB))
        device = room.device
        return replace(room, device=device.model_copy(update={"memory_gib": device.memory_gib + more}))

    steps = _smallest(lambda n: enough(larger(n)), 100_000)
    if not steps:
        return []
    what = "of cache (--kv-memory-gib)" if room.kv_memory is not None else "of memory on each device"
    return [f"{steps * STEP:.1f} GiB more {what}"]


def _cut(contexts: Contexts, longest: int) -> Contexts:
    """The same requests, none longer than that."""
    lengths = tuple(min(length, longest) for length in contexts.lengths)
    return replace(contexts, lengths=lengths, answer=min(contexts.answer, longest))


def _largest(true: Callable[[int], bool], most: int) -> int:
    """The largest n from 1 to `most` for which a property holds that larger ones lose; 0 for none."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if true(middle) else (low, middle - 1)
    return low


def _smallest(true: Callable[[int], bool], most: int) -> int:
    """The smallest n from 1 to `most` for which a property holds that larger ones keep; 0 for none."""
    if not true(most):
        return 0
    return _largest(lambda n: not true(n), most - 1) + 1
