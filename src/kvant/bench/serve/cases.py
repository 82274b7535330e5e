"""What is asked of both servers, and how `--only` selects among it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

from kvant.errors import ConfigError

BATCHED = 2048
"""Tokens that one step of the engine computes at most (vLLM's max_num_batched_tokens), on both sides."""

TOGETHER = 64
"""Tokens that every stream still gets once all of them decode."""


@dataclass(frozen=True)
class Case:
    """`streams` requests at once, each a prompt of `context` tokens and an answer of `output` tokens.

    `memory` is the KV memory of either side in GiB; 0 gives both as much as bf16 needs for all streams.
    """

    context: int
    streams: int
    output: int
    memory: int = 0

    @property
    def length(self) -> int:
        """Tokens of one stream, prompt and answer."""
        return self.context + self.output

    def __str__(self) -> str:
        return f"{self.streams} x {self.context}" + (f" in {self.memory} GiB" if self.memory else "")


def case(context: int, streams: int) -> Case:
    """A case whose answers are long enough that all streams decode together for `TOGETHER` tokens.

    The first stream decodes while the prompts of the others are still computed, one token a step.
    """
    steps = -(-(streams - 1) * context // max(1, BATCHED - streams))
    return Case(context, streams, TOGETHER + steps)


FIXED = Case(7500, 24, 512, memory=1)
"""More than the memory holds at once: requests wait or are preempted. Long answers, since prefill costs both
sides the same, however many streams fit."""

DEFAULT = (case(7500, 1), case(128, 8), case(7500, 8))


def full() -> tuple[Case, ...]:
    """Every context with every number of streams, and the fixed memory."""
    return (*(case(n, streams) for n, streams in product((128, 2048, 7500), (1, 8, 16))), FIXED)


def select(cases: tuple[Case, ...], only: str, output: int | None = None) -> tuple[Case, ...]:
    """The cases that `only` leaves of `cases`: "context=7500,streams=8".

    Context and streams together name a case even where `cases` has none like it; a fixed memory is meant
    only where it is named. `output` replaces the length of every answer. `ConfigError` names the part that
    is wrong or leaves nothing.
    """
    wanted = dict(_part(part) for part in filter(None, only.split(",")))
    if wanted:
        wanted.setdefault("memory", 0)
    found = tuple(c for c in cases if all(getattr(c, name) == value for name, value in wanted.items()))
    if not found and {"context", "streams"} <= wanted.keys():
        own = case(wanted["context"], wanted["streams"])
        found = (replace(own, memory=wanted["memory"]),)
    if not found:
        raise ConfigError(f"--only: {only!r} leaves no case; context and streams together name any")
    return tuple(replace(c, output=output) for c in found) if output else found


def _part(part: str) -> tuple[str, int]:
    name, _, value = part.partition("=")
    least = {"context": 1, "streams": 1, "memory": 0}
    if name not in least or not value.isascii() or not value.isdigit() or int(value) < least[name]:
        raise ConfigError(f"--only: {part!r} is not NAME=NUMBER with a name of {', '.join(least)}")
    return name, int(value)
