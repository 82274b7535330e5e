"""Greedy answers with n-gram speculation: `-m tests.reported.speculate MODEL SPEC WIDTH < prompts.json`."""

from __future__ import annotations

import json
import sys

from tests.engine.run import generate, tokens
from tests.engines import build


def main(model: str, spec: str, width: str) -> None:
    ngram = {"method": "ngram", "prompt_lookup_max": 3, "prompt_lookup_min": 1}
    llm = build(
        model,
        json.loads(spec),
        disable_log_stats=False,
        speculative_config={**ngram, "num_speculative_tokens": int(width)},
    )
    streams = tokens(generate(llm, json.load(sys.stdin), 40))
    accepted = sum(m.value for m in llm.get_metrics() if m.name == "vllm:spec_decode_num_accepted_tokens")
    print(json.dumps({"tokens": streams, "accepted": accepted}))


if __name__ == "__main__":
    main(*sys.argv[1:])
