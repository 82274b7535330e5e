"""Greedy answers with n-gram speculation: `-m tests.reported.speculate MODEL FORMAT WIDTH < prompts.json`."""

from __future__ import annotations

import json
import sys

from tests.engine.run import generate, tokens


def main(model: str, name: str, width: str) -> None:
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
        attention_backend="CUSTOM",
        additional_config={"kvant": {"key": name, "value": name}},
        disable_log_stats=False,
        speculative_config={
            "method": "ngram",
            "num_speculative_tokens": int(width),
            "prompt_lookup_max": 3,
            "prompt_lookup_min": 1,
        },
    )
    streams = tokens(generate(llm, json.load(sys.stdin), 40))
    accepted = sum(m.value for m in llm.get_metrics() if m.name == "vllm:spec_decode_num_accepted_tokens")
    print(json.dumps({"tokens": streams, "accepted": accepted}))


if __name__ == "__main__":
    main(*sys.argv[1:])
