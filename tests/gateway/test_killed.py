"""kill -9 of the gateway in every phase, of either arm, of Redis, and a full disk: traffic goes on, and no
user meets a weight that was not kept."""

from __future__ import annotations

import json
import random
import resource
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from kvant.gateway.audit.verify import verify
from tests.gateway.engine import Engine
from tests.gateway.killable import Gateway, engine, running, until
from tests.rollout.conftest import RedisServer, redis_server

__all__ = ["redis_server"]

Action = Callable[[], object]


@contextmanager
def asked(gateway: Gateway, stream: bool = False, tokens: int = 10) -> Iterator[Counter[str]]:
    """Two clients that ask without rest; what they were told."""
    told: Counter[str] = Counter()
    stop = threading.Event()

    def ask(number: int) -> None:
        for turn in range(1 << 30):
            if stop.is_set():
                return
            said = gateway.ask(f"user-{number}-{turn}", tokens, stream)
            told[said] += 1
            if said != "ok":
                time.sleep(0.05)

    with ThreadPoolExecutor(2) as pool:
        asking = [pool.submit(ask, number) for number in range(2)]
        try:
            yield told
        finally:
            stop.set()
            for one in asking:
                one.result(30)  # nobody hangs


def users(engine: Engine) -> set[str]:
    """Who was answered; copies and comparisons carry no user."""
    return {one["body"]["user"] for one in engine.requests if "user" in one["body"]}


STEPS = ("start", "promote", "promote", "promote", "rollback")
PHASES = (
    ("idle", 0.0),
    ("shadow", 0.0),
    ("canary", 0.05),
    ("canary", 0.5),
    ("full", 1.0),
    ("rolled_back", 0.0),
)


def test_a_gateway_killed_in_every_phase_goes_on_where_it_was(tmp_path: Path) -> None:
    """Killed at a random moment of each command: what was confirmed is kept, never more than was asked."""
    draw = random.Random(3)
    with Engine() as baseline, Engine() as candidate:
        arms = {"baseline": [baseline.url], "candidate": [candidate.url]}
        with running(Gateway(str(tmp_path / "state.db"), arms)) as gateway, asked(gateway) as told:
            assert isinstance(gateway, Gateway)
            for command, before, after in zip(STEPS, PHASES, PHASES[1:], strict=False):
                confirmed = _killed_during(gateway, command, draw.uniform(0.0, 0.03))
                gateway.start()
                found = gateway.status()
                now = (found["phase"], found["weight"])
                assert now == after if confirmed else now in (before, after)
                if now == before:
                    assert gateway.command(command) == 200
                time.sleep(0.1)  # answers under way may finish
                candidate.requests.clear()
                good = told["ok"]
                until(lambda good=good: told["ok"] > good + 10)
                if after[1] == 0:
                    assert not users(candidate), "the candidate answers at weight 0"
            _killed_during(gateway, "", 0.0)
            gateway.start()
            assert gateway.status()["phase"] == "rolled_back"
            good = told["ok"]
            until(lambda: told["ok"] > good + 20)
        assert set(told) <= {"ok", "no connection", "cut"}


def _killed_during(gateway: Gateway, command: str, seconds: float) -> bool:
    """Whether the command was confirmed before the end came."""
    confirmed = []

    def send() -> None:
        with suppress(httpx.TransportError):
            confirmed.append(gateway.command(command) == 200)

    thread = threading.Thread(target=send if command else lambda: None)
    thread.start()
    time.sleep(seconds)
    gateway.kill()
    thread.join(10)
    return any(confirmed)


@pytest.mark.parametrize("stream", [True, False], ids=["streams", "whole"])
def test_a_killed_replica_of_the_baseline_is_replaced_by_the_other(tmp_path: Path, stream: bool) -> None:
    with running(engine()) as one, running(engine()) as two, Engine() as candidate:
        arms = {"baseline": [one.url, two.url], "candidate": [candidate.url]}
        with running(Gateway(str(tmp_path / "state.db"), arms)) as gateway:
            assert isinstance(gateway, Gateway)
            with asked(gateway, stream) as told:
                until(lambda: told["ok"] > 10)
                one.kill()
                good = told["ok"]
                until(lambda: told["ok"] > good + 20)
            # Only streams that had begun may end otherwise, and they say so.
            assert set(told) - {"ok"} <= ({"error in the stream"} if stream else set())
            assert told["error in the stream"] <= 2
            assert not users(candidate)


def test_a_killed_candidate_hands_its_users_to_the_baseline(tmp_path: Path) -> None:
    with Engine() as baseline, running(engine()) as candidate:
        arms = {"baseline": [baseline.url], "candidate": [candidate.url]}
        with running(Gateway(str(tmp_path / "state.db"), arms)) as gateway:
            assert isinstance(gateway, Gateway)
            for command in STEPS[:4]:
                assert gateway.command(command) == 200
            with asked(gateway, stream=True) as told:
                until(lambda: told["ok"] > 10)
                baseline.requests.clear()
                candidate.kill()
                until(lambda: len(users(baseline)) > 20)
            assert set(told) <= {"ok", "error in the stream", "status 502"}
            assert gateway.status()["phase"] in ("full", "rolled_back")


def test_a_killed_baseline_is_told_truthfully_and_never_answered_by_the_candidate(tmp_path: Path) -> None:
    with running(engine()) as baseline, Engine() as candidate:
        arms = {"baseline": [baseline.url], "candidate": [candidate.url]}
        with running(Gateway(str(tmp_path / "state.db"), arms)) as gateway:
            assert isinstance(gateway, Gateway)
            with asked(gateway, stream=True) as told:
                until(lambda: told["ok"] > 10)
                baseline.kill()
                until(lambda: told["status 502"] > 4)
                baseline.start()
                good = told["ok"]
                until(lambda: told["ok"] > good + 20)
            assert set(told) <= {"ok", "error in the stream", "status 502"}
            assert not users(candidate)


def _held(gateway: Gateway, place: str) -> None:
    """The rollout says what is wrong with its store, keeps its weight and takes no command that raises it."""
    until(lambda: place in gateway.status()["trouble"])
    assert gateway.command("promote") == 503
    assert gateway.status()["weight"] == 0.05


def _goes_on(gateway: Gateway, told: Counter[str]) -> None:
    good = told["ok"]
    until(lambda: told["ok"] > good + 20)


def _through_trouble(gateway: Gateway, place: str, begin: Action, end: Action) -> None:
    with running(gateway), asked(gateway) as told:
        for command in STEPS[:2]:
            assert gateway.command(command) == 200
        begin()
        _goes_on(gateway, told)
        _held(gateway, place)
        _goes_on(gateway, told)
        end()
        until(lambda: not gateway.status()["trouble"])
        assert gateway.command("promote") == 200
        assert gateway.status()["weight"] == 0.5
        assert set(told) == {"ok"}


def test_a_killed_redis_holds_the_rollout_and_traffic_goes_on(redis_server: RedisServer) -> None:
    with Engine() as baseline, Engine() as candidate:
        gateway = Gateway(redis_server.url, {"baseline": [baseline.url], "candidate": [candidate.url]})
        _through_trouble(gateway, "edis", redis_server.kill, redis_server.start)


def test_a_full_disk_holds_the_rollout_and_traffic_goes_on(tmp_path: Path) -> None:
    """The limit on file sizes stands for the disk: writes beyond it fail in the same place."""
    audit = tmp_path / "audit.jsonl"

    def room(most: int) -> Callable[[], None]:
        both = (most, resource.RLIM_INFINITY)
        return lambda: resource.prlimit(gateway.process.pid, resource.RLIMIT_FSIZE, both)

    with Engine() as baseline, Engine() as candidate:
        arms = {"baseline": [baseline.url], "candidate": [candidate.url]}
        gateway = Gateway(str(tmp_path / "rollout.db"), arms, audit={"file": str(audit)})
        _through_trouble(gateway, "rollout.db", room(4096), room(resource.RLIM_INFINITY))
    assert not verify(audit).wrong, "no line is torn"
    rows = [json.loads(line) for line in audit.read_text().splitlines()]
    assert sum(row.get("lost", 0) for row in rows) > 0, "rows that were lost are told"
