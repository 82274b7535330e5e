"""The engine path: real kernels and pages, every configuration in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kvant.cache.spec import CacheSpec
from kvant.errors import EngineError
from kvant.formats import KEY_FORMATS, VALUE_FORMATS
from kvant.quality.bits import effective, stored
from kvant.quality.fidelity.row import Row, made
from kvant.quality.fidelity.settings import Settings
from kvant.quality.score import Scores, compare

STOCK = "stock"
"""vLLM's own 16-bit cache and kernel against ours: the noise of 16-bit arithmetic."""
CONTROL = CacheSpec(KEY_FORMATS["bf16"], VALUE_FORMATS["bf16"], rotate=False)


def rows(
    model: str,
    folder: Path | str,
    texts: Mapping[str, list[int]],
    specs: Mapping[str, CacheSpec],
    settings: Settings,
    control: Path | str,
) -> Iterator[Sequence[Row]]:
    """For each configuration the rows of all texts; the control (a model) runs first, stock vLLM next."""
    with tempfile.TemporaryDirectory(prefix="kvant-fidelity-") as scratch:
        _run(control, None, CONTROL, texts, settings, scratch)
        for name, spec in {STOCK: None, **specs}.items():
            facts = _run(folder, name, spec, texts, settings, scratch)
            shown = spec or CONTROL
            size = stored(shown, facts["layers"], facts["head_dim"], facts["kv_heads"])
            yield [
                made(
                    _scores(Path(scratch) / f"{text}.scores.npz", settings.first),
                    settings.skip,
                    settings.by_position,
                    settings.even,
                    model=model,
                    preset=name,
                    text=text,
                    path="engine",
                    bits=size,
                    effective_bits=effective(size, shown.sinks + shown.window, settings.tokens),
                    sinks=shown.sinks,
                    window=shown.window,
                    kernel=facts["kernel"],
                    weights=facts["weights"],
                )
                for text in texts
            ]


def _scores(file: Path, first: int) -> Scores:
    with np.load(file) as arrays:
        return Scores(first, arrays["kl"], arrays["same"], arrays["loss"])


def _run(
    folder: Path | str,
    name: str | None,
    spec: CacheSpec | None,
    texts: Mapping[str, list[int]],
    settings: Settings,
    scratch: str,
) -> dict[str, Any]:
    """One configuration in its process; the facts it prints. Name None: the control, which is kept."""
    from kvant.engine.forced import ENVIRONMENT

    job = {
        "model": str(folder), "control": name is None, "spec": None if spec is None else spec.to_json(),
        "texts": dict(texts), "tokens": settings.tokens, "first": settings.first, "dtype": settings.dtype,
        "scratch": scratch,
    }  # fmt: skip
    env = os.environ | ENVIRONMENT | {"VLLM_CPU_OMP_THREADS_BIND": settings.threads}
    env.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    if isinstance(folder, Path):
        env["HF_HUB_OFFLINE"] = "1"
    command = [sys.executable, "-m", "kvant.quality.fidelity.engine"]
    done = subprocess.run(
        command, env=env, input=json.dumps(job), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise EngineError(f"{folder} with {name or 'the 16-bit control'} failed:\n{done.stderr[-4000:]}")
    facts: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return facts


def _child(job: dict[str, Any]) -> dict[str, Any]:
    """Run the texts; save the control's states, or compare with them."""
    import torch

    from kvant.engine.forced import Forced

    spec = None if job["spec"] is None else CacheSpec.from_json(job["spec"])
    engine = Forced(job["model"], spec, job["tokens"], job["dtype"])
    _same_head(engine, Path(job["scratch"]) / "head", job["control"])
    for text, ids in job["texts"].items():
        states, kept = engine.states(ids), Path(job["scratch"]) / f"{text}.pt"
        if job["control"]:
            torch.save(states, kept)
            continue
        found = compare(torch.load(kept), states, ids, engine.logits, job["first"])
        np.savez(kept.with_suffix(".scores.npz"), kl=found.kl, same=found.same, loss=found.loss)
    return engine.facts()


def _same_head(engine: Any, file: Path, control: bool) -> None:
    """Both models' states go through one head: refuse a model whose head is not the control's."""
    digest = engine.head_digest()
    if control:
        file.write_text(digest)
    elif file.read_text() != digest:
        raise EngineError(
            "the output head is not that of the --control model: their predictions cannot be compared; "
            "give the model that this one was quantised from, with its head left as it was"
        )


if __name__ == "__main__":
    print(json.dumps(_child(json.load(sys.stdin))))
