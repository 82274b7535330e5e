"""The start-up smoke test: one tiny completion through the whole service, whose numbers must be numbers."""

from __future__ import annotations

from typing import Any

import httpx
from starlette.types import ASGIApp

from kvant.errors import EngineError

TOKENS = 4
SECONDS = 300.0


async def smoke(app: ASGIApp, model: str) -> None:
    """Asks vLLM's app for a few greedy tokens with log-probabilities; raises `EngineError` otherwise.

    A cache that computes NaN shows here: it has no log-probability that JSON could carry.
    """
    request = {
        "model": model,
        "prompt": "Hello",
        "max_tokens": TOKENS,
        "temperature": 0,
        "logprobs": 0,
        "ignore_eos": True,
    }
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://smoke", timeout=SECONDS) as client:
        response = await client.post("/v1/completions", json=request)
    if response.status_code != 200:
        raise EngineError(f"the start-up smoke test failed: {response.status_code} {response.text[:500]}")
    answer: dict[str, Any] = response.json()
    likelihoods = answer["choices"][0]["logprobs"]["token_logprobs"]
    if len(likelihoods) != TOKENS or any(type(one) is not float or one > 0 for one in likelihoods):
        raise EngineError(f"the start-up smoke test failed: {TOKENS} tokens wanted, log-probs {likelihoods}")
