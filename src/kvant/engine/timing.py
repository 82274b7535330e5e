"""Where the time of a step goes, on the worker that takes it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import asdict, dataclass
from time import perf_counter_ns
from typing import Any


@dataclass
class Times:
    """Nanoseconds since the start, of all layers of this rank."""

    step: int = 0
    """The model's forward pass and sampling."""
    encode: int = 0
    """Rotating and quantising new keys and values into pages; part of `step`."""
    attend: int = 0
    """Attention over pages, rotation of queries and outputs included; part of `step`."""

    def seconds(self) -> dict[str, float]:
        """By name."""
        return {name: ns / 1e9 for name, ns in asdict(self).items()}


TIMES = Times()


def watch(runner: Any) -> None:
    """Count the steps of vLLM's model runner in `TIMES`, and their parts, from the first call on."""
    if getattr(runner, "kvant_watched", False):
        return
    runner.kvant_watched = True
    TIMES.step = TIMES.encode = TIMES.attend = 0
    for name in ("execute_model", "sample_tokens"):
        setattr(runner, name, _counted(getattr(runner, name)))


def _counted(call: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(call)
    def counted(*args: Any, **options: Any) -> Any:
        start = perf_counter_ns()
        try:
            return call(*args, **options)
        finally:
            TIMES.step += perf_counter_ns() - start

    return counted
