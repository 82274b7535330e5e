"""Tensor parallelism: two ranks, each with its own heads, rotated by the model-wide number of the head."""

from __future__ import annotations

import os

import pytest

from tests.engine.alone import alone
from tests.engine.run import generate, prompt, tokens
from tests.engines import MakeEngine, Models


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two ranks need two cores")
@pytest.mark.slow
def test_two_ranks_answer_like_one(engine: MakeEngine, models: Models) -> None:
    prompts = [prompt(300, 1), prompt(20, 2)]
    first, second = sorted(os.sched_getaffinity(0))[:2]
    answer, log = alone(
        "tests.engine.parallel",
        str(models("llama")),
        "codebook4",
        prompts=prompts,
        VLLM_CPU_OMP_THREADS_BIND=f"{first}|{second}",
        VLLM_ENABLE_V1_MULTIPROCESSING="1",
        VLLM_LOGGING_LEVEL="INFO",
    )
    one = engine({"key": "codebook4", "value": "codebook4"})
    assert answer["tokens"] == tokens(generate(one, prompts, 16))
    reports = answer["reports"]
    assert [[layer["heads"] for layer in r["layers"]] for r in reports] == [[[0]] * 4, [[1]] * 4]
    assert len({layer["digest"] for r in reports for layer in r["layers"]}) == 1
    said = "kvant: key codebook4, value codebook4, 4 of 4 layers, 272 bytes per token (3.76x less"
    assert log.count(said) == 2, "every worker says once what its cache is"
    assert log.count("kvant: the KV cache lies ") == 2, "and what memory it has"
