"""How a process grows with its pool and with use: `python -m tests.reported.resident MODEL FORMAT`."""

from __future__ import annotations

import gc
import json
import sys

import psutil

from tests.engine.run import generate, prompt
from tests.engines import build

SMALL, LARGE = 100, 8100


def main(model: str, name: str) -> None:
    process = psutil.Process()
    engines = []

    def resident() -> int:
        gc.collect()
        return int(process.memory_info().rss)

    def grow(blocks: int) -> int:
        before = resident()
        engines.append(
            build(
                model,
                {"key": name, "value": name},
                dtype="bfloat16",
                max_num_batched_tokens=512,
                num_gpu_blocks_override=blocks,
                enable_prefix_caching=False,
            )
        )
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
