"""Nothing fits: why, and the smallest change of each kind that would mend it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from kvant.plan.contexts import Contexts
from kvant.plan.fit import fit
from kvant.plan.geometry import Model
from kvant.plan.precision import DEFAULT, Precision, parse
from kvant.plan.room import GIB, Room

MOST_RANKS = 64
STEP = 0.1
"""Of a GiB: as finely as memory is said."""


def reason(model: Model, tried: Sequence[Precision], contexts: Contexts, room: Room, wanted: int) -> str:
    """One sentence: what is too large for what."""
    served = [one for one in tried if not one.refusal(model)]
    if not served:
        return "; ".join(f"{one.name}: {one.refusal(model)}" for one in tried)
    left = room.pool(model, wanted)
    if left <= 0:
        need = (room.weights(model) + room.activations(model, wanted)) / GIB + room.overhead_gib
        return (
            f"weights, activations and overhead take {need:.1f} GiB of each device, which has "
            f"{room.memory() / GIB:.1f} GiB for vLLM"
        )
    best = max((fit(model, one, contexts, room) for one in served), key=lambda one: one.max_num_seqs)
    what = f"{wanted} requests" if wanted > 1 else "one request"
    name, margin = best.precision.name, f"with a margin of {room.margin:.0%}"
    return (
        f"{what} of {contexts.longest:,} tokens at most do not fit {left / GIB:.2f} GiB of cache {margin}: "
        f"{name}, the densest asked for, holds {best.max_num_seqs}"
    )


def changes(
    model: Model, tried: Sequence[Precision], contexts: Contexts, room: Room, wanted: int
) -> list[str]:
    """Each alone is enough."""

    def enough(precisions: Sequence[Precision], lengths: Contexts, where: Room) -> bool:
        return any(
            not one.refusal(model) and fit(model, one, lengths, where).max_num_seqs >= wanted
            for one in precisions
        )

    found = []
    others = [
        one for one in parse(DEFAULT, block_size=room.block_size) if one.name not in {x.name for x in tried}
    ]
    others = [one for one in others if enough([one], contexts, room)]
    if others:
        most = max(others, key=lambda one: one.bits(model))
        found.append(f"--precision {most.name}")
    shorter = _largest(lambda n: enough(tried, _cut(contexts, n), room), contexts.longest - 1)
    if shorter:
        found.append(f"requests of {shorter:,} tokens at most (--context {shorter})")
    if wanted > 1:
        fewer = max((fit(model, one, contexts, room).max_num_seqs for one in tried), default=0)
        if fewer:
            found.append(f"--concurrency {fewer}")
    ranks = next(
        (n for n in _ranks(model, room.ranks) if enough(tried, contexts, replace(room, ranks=n))), None
    )
    if ranks and room.kv_memory is None:
        found.append(f"--devices {ranks}")
    found += _memory(room, lambda where: enough(tried, contexts, where))
    return found


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


def _ranks(model: Model, ranks: int) -> list[int]:
    return [n for n in range(ranks + 1, MOST_RANKS + 1) if model.heads % n == 0]


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
