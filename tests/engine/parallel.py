"""Greedy answers on two ranks: `python -m tests.engine.parallel MODEL FORMAT < prompts.json`."""

from __future__ import annotations

import json
import sys

from tests.engine.run import generate, tokens
from tests.engines import build


def main(model: str, name: str) -> None:
    llm = build(model, {"key": name, "value": name}, tensor_parallel_size=2)
    streams = tokens(generate(llm, json.load(sys.stdin), 16))
    print(json.dumps({"tokens": streams, "reports": llm.collective_rpc("kvant_report")}))


if __name__ == "__main__":
    main(*sys.argv[1:])
