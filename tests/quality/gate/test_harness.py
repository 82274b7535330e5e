"""What lm-evaluation-harness (`local-completions`) sends and reads: our endpoint answers it."""

from __future__ import annotations

import httpx

from tests.e2e.server import MODEL, Server

CONTEXT, CONTINUATION = "The capital of France is", " Paris"


def _ids(server: Server, text: str) -> list[int]:
    body = {"model": MODEL, "prompt": text, "add_special_tokens": False}
    return list(httpx.post(f"{server.url}/tokenize", json=body, timeout=60).json()["tokens"])


def test_the_log_likelihood_of_a_continuation(server: Server) -> None:
    context = _ids(server, CONTEXT)
    likely, unlikely = (context + _ids(server, word) for word in (CONTINUATION, " cheese"))
    body = {
        "model": MODEL, "prompt": [likely, unlikely], "temperature": 0, "max_tokens": 1, "logprobs": 1,
        "seed": 1234, "echo": True,
    }  # fmt: skip
    answer = httpx.post(f"{server.url}/v1/completions", json=body, timeout=120).json()
    sums = []
    for choice in sorted(answer["choices"], key=lambda one: one["index"]):
        logprobs = choice["logprobs"]["token_logprobs"]
        assert logprobs[0] is None  # nothing comes before the first token
        assert len(logprobs) == len(choice["logprobs"]["top_logprobs"])
        # The harness takes the continuation, without the one token that was generated.
        sums.append(sum(logprobs[len(context) : -1]))
    assert 0 > sums[0] > sums[1]
