"""Real vLLM engines in this process, on tiny random models: made once, shared, kept to the end.

vLLM tears its process groups down when any engine is collected, so engines stay alive for the session.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from tests import tiny

ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
    # vLLM compiles sampler helpers at the first log-probabilities, even in eager mode: 20 s each engine.
    "TORCH_COMPILE_DISABLE": "1",
}

Engine = Any
MakeEngine = Callable[..., Engine]
Models = Callable[[str], Path]


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    """Folder of a tiny model by family."""
    made: dict[str, Path] = {}

    def model(family: str) -> Path:
        if family not in made:
            made[family] = tiny.write(tmp_path_factory.mktemp(family), family)
        return made[family]

    return model


def build(model: Path | str, spec: dict[str, Any] | None, **options: Any) -> Engine:
    """An engine with this cache (None: stock vLLM). vLLM reads `ENVIRONMENT` when it is first imported."""
    from vllm import LLM

    ours = {"attention_backend": "CUSTOM", "additional_config": {"kvant": spec}} if spec is not None else {}
    arguments = {
        "skip_tokenizer_init": True,
        "enforce_eager": True,
        "dtype": "float32",
        "max_model_len": 2048,
        "max_num_batched_tokens": 256,
        "max_num_seqs": 8,
        "block_size": 32,
        "num_gpu_blocks_override": 300,
        "worker_extension_cls": "kvant.engine.report.WorkerReport",
        **ours,
        **options,
    }
    return LLM(model=str(model), **arguments)


@pytest.fixture(scope="session")
def engine(models: Models) -> Iterator[MakeEngine]:
    """Make (or reuse) an engine: `engine({"key": "int8"}, "llama", max_num_batched_tokens=64)`."""
    kept: dict[str, Engine] = {}

    def make(
        spec: dict[str, Any] | None = None, family: str = "llama", fresh: bool = False, **options: Any
    ) -> Engine:
        label = f"{family} {spec} {sorted(map(str, options.items()))}"
        if not fresh and label in kept:
            return kept[label]
        with patch.dict(os.environ, ENVIRONMENT):
            import torch

            llm = build(models(family), spec, **options)
        # One thread: tiny models gain nothing from two, and do not wait for each other on a busy machine.
        torch.set_num_threads(1)
        kept[f"{label} {len(kept)}" if fresh else label] = llm
        return llm

    yield make
    release(kept)


def release(kept: dict[Any, Engine]) -> None:
    """Ends engines. vLLM looks for garbage in the whole process after each, for seconds; not here."""
    with patch.object(gc, "collect", lambda: 0):
        kept.clear()
