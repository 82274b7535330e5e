"""The plan from the traffic of a real `kvant serve`."""

from __future__ import annotations

import pytest

from kvant.plan.traffic import ANSWER, FEWEST, PROMPT, of_metrics
from tests.e2e.server import MODEL, Server


def test_lengths_are_those_the_server_counted(server: Server) -> None:
    client = server.client()
    for words in (10, 400) * (FEWEST // 2):
        client.completions.create(model=MODEL, prompt="word " * words, max_tokens=4, temperature=0)
    found = of_metrics(f"{server.url}/metrics", 8192)
    count = server.metric(f"{PROMPT}_count")
    tokens = server.metric(f"{PROMPT}_sum") + server.metric(f"{ANSWER}_sum")
    assert found.requests == count >= FEWEST
    assert found.mean == pytest.approx(tokens / count, rel=0.01)
    assert found.lengths[0] < 100
    assert found.longest > 200  # in the bucket of the long one, among whatever else the server was asked
