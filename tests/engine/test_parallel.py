"""Tensor parallelism: two ranks, each with its own heads, rotated by the model-wide number of the head."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.engine.run import generate, prompt, tokens
from tests.engines import ENVIRONMENT, MakeEngine, Models


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two ranks need two cores")
def test_two_ranks_answer_like_one(engine: MakeEngine, models: Models) -> None:
    prompts = [prompt(300, 1), prompt(20, 2)]
    first, second = sorted(os.sched_getaffinity(0))[:2]
    done = subprocess.run(
        [sys.executable, "-m", "tests.engine.parallel", str(models("llama")), "codebook4"],
        input=json.dumps(prompts),
        env={**os.environ, **ENVIRONMENT, "VLLM_CPU_OMP_THREADS_BIND": f"{first}|{second}"}
        | {"VLLM_ENABLE_V1_MULTIPROCESSING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answer = json.loads(done.stdout.splitlines()[-1])
    one = engine({"key": "codebook4", "value": "codebook4"})
    assert answer["tokens"] == tokens(generate(one, prompts, 16))
    reports = answer["reports"]
    assert [[layer["heads"] for layer in r["layers"]] for r in reports] == [[[0]] * 4, [[1]] * 4]
    assert len({layer["digest"] for r in reports for layer in r["layers"]}) == 1
