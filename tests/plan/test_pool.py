"""Requests that a plan says fit run together in a real engine; with fewer blocks they do not."""

from __future__ import annotations

import pytest

from kvant.plan.model import of_path
from kvant.plan.pages import blocks
from kvant.plan.precision import parse
from tests.engine.run import generate, prompt
from tests.engines import MakeEngine, Models
from tests.reported.test_memory_capacity import preemptions

BLOCK, STEP, SEQS = 16, 64, 8
ANSWER, LENGTH = 100, 256


@pytest.mark.slow
@pytest.mark.parametrize("family", ["gemma3", "llama"])
def test_planned_requests_run_together(engine: MakeEngine, models: Models, family: str) -> None:
    """Windows of 64 on five layers of six: what a window no longer sees is given back in time."""
    pool = blocks(of_path(models(family)), parse(["int8"])[-1], BLOCK)
    needed = 1 + SEQS * pool.in_use(LENGTH) + pool.in_flight(STEP)
    assert run(engine, family, needed) == 0
    assert run(engine, family, needed * 9 // 10) > 0


def run(engine: MakeEngine, family: str, number: int) -> int:
    """Preemptions while eight requests of 256 tokens go through a cache of so many blocks."""
    llm = engine(
        {"key": "int8", "value": "int8"},
        family,
        num_gpu_blocks_override=number,
        block_size=BLOCK,
        max_num_seqs=SEQS,
        max_num_batched_tokens=STEP,
        max_model_len=LENGTH,
        enable_prefix_caching=False,
        disable_log_stats=False,
    )
    generate(llm, [prompt(LENGTH - ANSWER, seed) for seed in range(SEQS)], ANSWER)
    return preemptions(llm)
