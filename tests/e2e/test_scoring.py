"""What the gateway asks a real engine: token ids of a conversation, scores of an answer, its continuation."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import httpx
import pytest

from kvant.gateway.answers import compare
from kvant.gateway.answers.score import Scorer
from kvant.gateway.answers.settings import Comparing
from kvant.gateway.answers.takeover import continuation
from kvant.gateway.arms.arm import Arm
from kvant.gateway.arms.asker import ArmAsker
from kvant.gateway.arms.replica import Replica
from kvant.gateway.arms.upstream import Upstream
from kvant.gateway.call import Call
from kvant.rollout.evidence import BASELINE, CANDIDATE
from tests.e2e.server import MODEL, Server

T = TypeVar("T")
CHAT = "/v1/chat/completions"
ASKED = {
    "model": MODEL, "messages": [{"role": "user", "content": "Name three rivers, please."}],
    "temperature": 0, "max_tokens": 24,
}  # fmt: skip


def answer(server: Server, body: Any) -> dict[str, Any]:
    found = httpx.post(server.url + CHAT, json=body, timeout=120)
    assert found.status_code == 200, found.text
    return found.json()


def asking(server: Server, ask: Callable[[ArmAsker], Awaitable[T]]) -> T:
    async def work() -> T:
        upstream = Upstream(5.0)
        try:
            arms = {name: Arm(name, [Replica(server.url, 64)]) for name in (BASELINE, CANDIDATE)}
            return await ask(ArmAsker(arms, upstream))
        finally:
            await upstream.close()

    return asyncio.run(work())


def test_an_engine_scores_its_own_answer(server: Server) -> None:
    """The ids are those that the engine itself read, and two readings of one engine are the same."""
    found = answer(server, {**ASKED, "return_token_ids": True})
    text = found["choices"][0]["message"]["content"]
    call, settings = Call("c", CHAT, ASKED, "", ""), Comparing(top=20)
    reading = asking(server, lambda asker: Scorer(asker, settings).reading(BASELINE, call, text))
    assert list(reading.ids[: reading.first]) == found["prompt_token_ids"]
    apart = asking(server, lambda asker: compare.scored(Scorer(asker, settings), call, text))
    assert apart is not None
    assert apart.positions == len(reading.ids) - reading.first > 10
    assert apart.divergence == pytest.approx(0, abs=5e-3), "bfloat16, in two batches"
    assert apart.agreement > 0.85


def test_an_engine_goes_on_where_a_text_ends(server: Server) -> None:
    text = answer(server, ASKED)["choices"][0]["message"]["content"]
    at = text.index(" ", len(text) // 2) + 1
    rest = continuation(Call("c", CHAT, ASKED, "", ""), text[:at], 12)
    assert rest is not None
    more = rest.fit(answer(server, rest.body)["choices"][0]["message"]["content"])
    assert (text[:at] + more)[: at + 12] == text[: at + 12]
