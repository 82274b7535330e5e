"""One configuration reads the texts, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kvant.cache.spec import CacheSpec
from kvant.errors import EngineError
from kvant.quality.fidelity.settings import Settings
from kvant.quality.score import compare


def run(
    folder: Path | str,
    name: str,
    spec: CacheSpec | None,
    texts: Mapping[str, list[int]],
    settings: Settings,
    scratch: str,
    keep: str,
    against: Sequence[str],
) -> dict[str, Any]:
    """One configuration in its process, kept under a name or not, compared with kept ones; its facts."""
    from kvant.engine.forced import ENVIRONMENT

    job = {
        "model": str(folder), "keep": keep, "against": against,
        "spec": None if spec is None else spec.to_json(),
        "texts": dict(texts), "tokens": settings.tokens, "first": settings.first, "dtype": settings.dtype,
        "scratch": scratch,
    }  # fmt: skip
    env = os.environ | ENVIRONMENT | {"VLLM_CPU_OMP_THREADS_BIND": settings.threads}
    env.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    if isinstance(folder, Path):
        env["HF_HUB_OFFLINE"] = "1"
    command = [sys.executable, "-m", "kvant.quality.fidelity.process"]
    done = subprocess.run(
        command, env=env, input=json.dumps(job), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise EngineError(f"{folder} with {name} failed:\n{done.stderr[-4000:]}")
    facts: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return facts


def _child(job: dict[str, Any]) -> dict[str, Any]:
    """Run the texts; keep their states where asked to, and compare with those kept before."""
    import torch

    from kvant.engine.forced import Forced

    spec = None if job["spec"] is None else CacheSpec.from_json(job["spec"])
    engine, scratch = Forced(job["model"], spec, job["tokens"], job["dtype"]), Path(job["scratch"])
    _same_head(engine, scratch / "head")
    for text, ids in job["texts"].items():
        states = engine.states(ids)
        if job["keep"]:
            torch.save(states, scratch / f"{text}.{job['keep']}.pt")
        for base in job["against"]:
            kept = torch.load(scratch / f"{text}.{base}.pt")
            found = compare(kept, states, ids, engine.logits, job["first"])
            np.savez(scratch / f"{text}.{base}.npz", kl=found.kl, same=found.same, loss=found.loss)
    return engine.facts()


def _same_head(engine: Any, file: Path) -> None:
    """All states go through one head: refuse a model whose head is not that of the first that ran."""
    digest = engine.head_digest()
    if not file.exists():
        file.write_text(digest)
    elif file.read_text() != digest:
        raise EngineError(
            "the output head is not that of the --control model: their predictions cannot be compared; "
            "give the model that this one was quantised from, with its head left as it was"
        )


if __name__ == "__main__":
    print(json.dumps(_child(json.load(sys.stdin))))
