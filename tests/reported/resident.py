"""How a process grows with its pool and with use: `python -m tests.reported.resident MODEL FORMAT`."""

from __future__ import annotations

import gc
import json
import sys
from typing import Any

import psutil

from tests.engine.run import generate, prompt

SMALL, LARGE = 100, 8100


def make(model: str, name: str, blocks: int) -> Any:
    from vllm import LLM

    return LLM(
        model=model,
        skip_tokenizer_init=True,
        enforce_eager=True,
        max_model_len=2048,
        max_num_batched_tokens=512,
        max_num_seqs=8,
        block_size=32,
        num_gpu_blocks_override=blocks,
        enable_prefix_caching=False,
        attention_backend="CUSTOM",
        additional_config={"kvant": {"key": name, "value": name}},
        worker_extension_cls="kvant.engine.report.WorkerReport",
    )


def main(model: str, name: str) -> None:
    process = psutil.Process()
    engines = []

    def resident() -> int:
        gc.collect()
        return int(process.memory_info().rss)

    def grow(blocks: int) -> int:
        before = resident()
        engines.append(make(model, name, blocks))
        generate(engines[-1], [prompt(600, 0), prompt(600, 1)], 2)
        return resident() - before

    grow(SMALL)  # everything a process loads once
    pages = grow(LARGE) - grow(SMALL)
    before = resident()
    for seed in range(20):
        generate(engines[1], [prompt(1500, 100 + seed)], 2)
    (report,) = engines[1].collective_rpc("kvant_report")
    used = resident() - before
    print(json.dumps({"pages": pages, "blocks": LARGE - SMALL, "used": used, "kv_bytes": report["kv_bytes"]}))


if __name__ == "__main__":
    main(*sys.argv[1:])
