"""Real vLLM engines in this process, on tiny random models: made once, shared, kept to the end.

vLLM tears its process groups down when any engine is collected, so engines stay alive for the session.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import tiny

os.environ |= {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}

Engine = Any
MakeEngine = Callable[..., Engine]


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Folder of a tiny model by family."""
    made: dict[str, Path] = {}

    def model(family: str) -> Path:
        if family not in made:
            made[family] = tiny.write(tmp_path_factory.mktemp(family), family)
        return made[family]

    return model


@pytest.fixture(scope="session")
def engine(models: Callable[[str], Path]) -> Iterator[MakeEngine]:
    """Make (or reuse) an engine: `engine({"key": "int8"}, "llama", max_num_batched_tokens=64)`."""
    from vllm import LLM

    kept: dict[str, Engine] = {}

    def make(
        spec: dict[str, Any] | None = None, family: str = "llama", fresh: bool = False, **options: Any
    ) -> Engine:
        quantised = (
            {"attention_backend": "CUSTOM", "additional_config": {"kvant": spec}} if spec is not None else {}
        )
        arguments = {
            "dtype": "float32",
            "max_model_len": 2048,
            "max_num_batched_tokens": 256,
            "max_num_seqs": 8,
            "block_size": 32,
            "num_gpu_blocks_override": 300,
            **quantised,
            **options,
        }
        label = f"{family} {sorted(map(str, arguments.items()))}"
        if fresh or label not in kept:
            kept[f"{label} {len(kept)}" if fresh else label] = llm = LLM(
                model=str(models(family)),
                skip_tokenizer_init=True,
                enforce_eager=True,
                worker_extension_cls="kvant.engine.report.WorkerReport",
                **arguments,
            )
            return llm
        return kept[label]

    yield make
    kept.clear()
