"""kill -9 at any moment: what was kept is there, and the weight is the last one kept, never more."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kvant.errors import StoreError
from kvant.rollout import state as states
from kvant.rollout.controller import Controller
from kvant.rollout.evidence import CANDIDATE
from kvant.rollout.state import State
from kvant.rollout.stores import open_store
from tests.rollout.conftest import Opener, RedisServer, quick
from tests.rollout.gateway import gateway


def begin(where: str) -> None:
    store = open_store(where)
    assert store.swap(0, states.start(State(), "low-bit", "salt", 0.0, "ann"))
    store.close()


def kept(where: str) -> tuple[State, float]:
    store = open_store(where)
    state = store.read()
    assert state is not None
    counted = sum(sums.get("compared", 0.0) for sums in store.sums(state.generation, state.stage + 1))
    store.close()
    return state, counted


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
def test_kill_9_in_a_loop(kind: str, request: pytest.FixtureRequest, tmp_path: Path):
    server: RedisServer | None = request.getfixturevalue("redis_server") if kind == "redis" else None
    where = server.url if server else str(tmp_path / "rollout.db")
    begin(where)
    draw, counted = random.Random(7), 0.0
    state, _ = kept(where)
    for _ in range(9):
        with gateway(where) as one:
            said = [one.weight()]
            if state.dwelt < 10:  # else a promotion was due, and is kept before it is told
                assert said[0] == state.weight, "does not go on where it was"
            said += [one.weight() for _ in range(draw.randrange(30))]
            time.sleep(draw.uniform(0.0, 0.005))
            said += one.kill()
        if server:
            server.settle()
        state, now = kept(where)
        assert said == sorted(said)
        assert said[-1] <= state.weight, "somebody was served at a weight that was not kept"
        assert now >= counted + 4 * (len(said) - 2), "evidence of a finished tick is lost"
        assert now <= counted + 4 * (len(said) + 2), "evidence was counted twice"
        counted = now
    assert state.weight > 0


def test_a_rollback_that_was_kept_survives_kill_9_while_others_write(tmp_path: Path, opened: Opener):
    where = str(tmp_path / "rollout.db")
    begin(where)
    with gateway(where) as one:
        one.weight()
        Controller(quick(), opened(where), "low-bit").command("rollback", "ann")
        for _ in range(20):
            one.weight()
    state, _ = kept(where)
    assert (state.phase, state.weight) == ("rolled_back", 0.0)
    again = Controller(quick(), opened(where), "low-bit")
    assert all(again.choose(f"user-{n}") != CANDIDATE for n in range(500))


FULL = """
import resource, signal, sys
from kvant.rollout.controller import Controller
from kvant.rollout.evidence import Comparison
from kvant.rollout.stores import open_store
from tests.rollout.conftest import Clock, quick

clock = Clock()
one = Controller(quick(), open_store(sys.argv[1]), "low-bit", monotonic=clock)
one.command("start", "ann")
one.command("promote", "ann")
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
for _ in range(30):
    for _ in range(10):
        one.observe(Comparison(0.0, 0.003, 0.98, 100))
    clock.now += 1
    one.tick()
held = one.status()
assert held["weight"] == 0.05 and "rollout.db" in held["trouble"], held
assert held["counts"]["compared"]["phase"] == 300, held
assert one.choose("user-1") in ("baseline", "candidate")
try:
    one.command("promote", "ann")
except Exception as error:
    print(type(error).__name__)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
one.tick()
assert one.status()["trouble"] == "", one.status()
for _ in range(10):
    clock.now += 1
    one.tick()
print(one.status()["weight"], one.status()["counts"]["compared"]["total"])
"""


def test_a_full_disk_holds_the_rollout_says_so_and_loses_nothing(tmp_path: Path):
    """The limit on file sizes stands for the disk: writes beyond it fail in the same place."""
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path / "rollout.db")],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [StoreError.__name__, "0.5", "300"]


def test_a_killed_redis_holds_and_its_restart_goes_on(redis_server: RedisServer):
    begin(redis_server.url)
    with gateway(redis_server.url) as one:
        before = one.weight()
        redis_server.kill()
        for _ in range(200):
            assert one.weight() == 0
        redis_server.start()
        end = time.monotonic() + 20
        while (now := one.weight()) < 1:
            assert now >= before
            assert time.monotonic() < end, "does not go on"
            before = now
    assert kept(redis_server.url)[0].weight == 1
