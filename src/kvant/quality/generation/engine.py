"""One configuration writes all texts, in a process of its own: real kernels, real pages, one batch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from kvant.cache.spec import CacheSpec
from kvant.errors import EngineError
from kvant.quality.fidelity.settings import Settings
from kvant.quality.generation.decoding import Writing


def write(
    folder: Path | str, name: str, spec: CacheSpec | None, writing: Writing, settings: Settings
) -> tuple[list[list[int]], str]:
    """Token ids written for each of `writing.requests()`, and the kernel that read the cache."""
    from kvant.engine.forced import ENVIRONMENT

    job = {
        "model": str(folder), "spec": spec and spec.to_json(), "dtype": settings.dtype,
        "context": writing.context, "requests": writing.requests(), "prompts": dict(writing.prompts),
    }  # fmt: skip
    env = os.environ | ENVIRONMENT | {"VLLM_CPU_OMP_THREADS_BIND": settings.threads}
    env.setdefault("VLLM_CPU_KVCACHE_SPACE", "2")
    if isinstance(folder, Path):
        env["HF_HUB_OFFLINE"] = "1"
    command = [sys.executable, "-m", "kvant.quality.generation.engine"]
    done = subprocess.run(
        command, env=env, input=json.dumps(job), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise EngineError(f"{folder} with {name} wrote nothing:\n{done.stderr[-4000:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    return found["texts"], found["kernel"]


def _child(job: dict[str, Any]) -> dict[str, Any]:
    from kvant.engine.forced import STEP, Forced

    spec = None if job["spec"] is None else CacheSpec.from_json(job["spec"])
    requests = [
        (job["prompts"][prompt], temperature, seed) for prompt, _, seed, temperature in job["requests"]
    ]
    step = max(STEP, sum(len(ids) for ids, *_ in requests))
    engine = Forced(job["model"], spec, job["context"], job["dtype"], len(requests), step)
    return {"texts": engine.write(requests, job["context"]), "kernel": engine.facts()["kernel"]}


if __name__ == "__main__":
    print(json.dumps(_child(json.load(sys.stdin))))
