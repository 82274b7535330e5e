"""Shares of a step, from the metrics of a running server."""

from __future__ import annotations

import time

import pytest

from kvant.bench.serve import shares
from tests.e2e.fixtures import server, start
from tests.e2e.server import MODEL, Server

__all__ = ["server", "start"]


@pytest.mark.slow
def test_a_server_tells_what_its_steps_are_spent_on(server: Server) -> None:
    before = shares.read(server.url)
    server.client().completions.create(model=MODEL, prompt="A cat", max_tokens=4)
    time.sleep(shares.LAG)
    after = shares.read(server.url)
    assert after.keys() == {"step", "encode", "attend"}
    found = shares.between(before, after)
    assert found is not None
    assert found.keys() == {"encode", "attend"}
    assert all(0 < share < 1 for share in found.values())


def test_nothing_counted_is_no_share() -> None:
    assert shares.between({}, {}) is None
    same = {"step": 2.0, "encode": 1.0}
    assert shares.between(same, same) is None
    assert shares.between({}, same) == {"encode": 0.5}
