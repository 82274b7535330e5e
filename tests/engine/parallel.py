"""Greedy answers on two ranks: `python -m tests.engine.parallel MODEL FORMAT < prompts.json`."""

from __future__ import annotations

import json
import sys

from tests.engine.run import generate, tokens


def main(model: str, name: str) -> None:
    from vllm import LLM

    llm = LLM(
        model=model,
        skip_tokenizer_init=True,
        enforce_eager=True,
        dtype="float32",
        max_model_len=2048,
        max_num_batched_tokens=256,
        max_num_seqs=8,
        block_size=32,
        num_gpu_blocks_override=300,
        tensor_parallel_size=2,
        attention_backend="CUSTOM",
        additional_config={"kvant": {"key": name, "value": name}},
        worker_extension_cls="kvant.engine.report.WorkerReport",
    )
    streams = tokens(generate(llm, json.load(sys.stdin), 16))
    print(json.dumps({"tokens": streams, "reports": llm.collective_rpc("kvant_report")}))


if __name__ == "__main__":
    main(*sys.argv[1:])
