"""Start engines one after the other and print what each says of its cache: `python -m tests.plan.startup`.

Words are JSON objects: model, spec (null: stock vLLM), and options of vLLM's LLM. Run in a process of its own
(`tests.engine.alone`), so that nothing of it stays in memory.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from kvant.models import resolve
from tests.engines import ENVIRONMENT, build

OPTIONS = {
    "dtype": "bfloat16",
    "num_gpu_blocks_override": None,
    "block_size": 64,
    "max_model_len": 4096,
    "max_num_seqs": 8,
    "max_num_batched_tokens": 256,
}
MEMORY = int(ENVIRONMENT["VLLM_CPU_KVCACHE_SPACE"]) << 30
"""Bytes of the cache: the variable has its way over options."""


def start(model: str, spec: dict[str, Any] | None, **options: Any) -> dict[str, Any]:
    """An engine's own figures: blocks, tokens, and the bytes of its tensors."""
    llm = build(resolve(model), spec, **(OPTIONS | options))
    config = llm.llm_engine.vllm_config
    (report,) = llm.collective_rpc("kvant_report")
    own = [layer for layer in report["layers"] if not layer["shares"]]
    return {
        "num_blocks": config.cache_config.num_gpu_blocks,
        "tokens": config.cache_config.kv_cache_size_tokens,
        "in_flight": config.max_in_flight_tokens,
        "token_bytes": sum(layer["page_bytes"] / layer["shape"][2] for layer in own),
        "kv_bytes": report["kv_bytes"],
        "exact_bytes": sum(layer.get("exact_bytes", 0) for layer in own),
    }


if __name__ == "__main__":
    print(json.dumps([start(**json.loads(word)) for word in sys.argv[1:]]))
