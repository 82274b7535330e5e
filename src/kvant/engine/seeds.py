"""A mend of vLLM 0.32 on CPUs: a request with its own `seed` whose prompt comes in chunks ended the engine.

The runner samples after every chunk, throws the token away and winds the request's generator back by its
offset, which only a GPU's generator has. Here the state from before is put back instead.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np


def mend() -> None:
    """Change vLLM's CPU runner, once in a process."""
    from vllm.v1.worker.cpu_model_runner import CPUModelRunner

    if getattr(CPUModelRunner, "kvant_seeds", False):
        return
    CPUModelRunner.kvant_seeds = True
    CPUModelRunner._sample = _unchanged(CPUModelRunner._sample)
    CPUModelRunner._bookkeeping_sync = _unseen(CPUModelRunner._bookkeeping_sync)


def _thrown_away(runner: Any) -> dict[int, Any]:
    """Generators of the requests of this step whose token is thrown away, by row."""
    rows = np.nonzero(runner.discard_request_mask.np[: runner.input_batch.num_reqs])[0]
    generators = runner.input_batch.generators
    return {int(row): generators[row] for row in rows.tolist() if row in generators}


def _unchanged(sample: Any) -> Any:
    @functools.wraps(sample)
    def wrapped(runner: Any, *args: Any, **options: Any) -> Any:
        before = [(one, one.get_state()) for one in _thrown_away(runner).values()]
        try:
            return sample(runner, *args, **options)
        finally:
            for generator, state in before:
                generator.set_state(state)

    return wrapped


def _unseen(bookkeeping: Any) -> Any:
    """Hide from the runner what it would wind back a second time."""

    @functools.wraps(bookkeeping)
    def wrapped(runner: Any, *args: Any, **options: Any) -> Any:
        hidden = _thrown_away(runner)
        for row in hidden:
            del runner.input_batch.generators[row]
        try:
            return bookkeeping(runner, *args, **options)
        finally:
            runner.input_batch.generators.update(hidden)

    return wrapped
