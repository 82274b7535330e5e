"""Every store: one state, changed by whoever saw it last; evidence added once, in any order."""

from __future__ import annotations

import json
import sqlite3
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from kvant.errors import StoreError
from kvant.rollout import state as states
from kvant.rollout.controller import Controller
from kvant.rollout.plan import Plan
from kvant.rollout.state import State
from kvant.rollout.stores import Store, open_store
from tests.rollout.conftest import RedisServer

STARTED = states.start(State(), "low-bit · 4.1 bits", "salt", 1.5, "ann")


def test_a_new_store_is_empty_and_keeps_what_it_is_given(store: Store):
    assert store.read() is None
    assert store.sums(1, 2) == [{}, {}]
    assert store.swap(0, STARTED)
    assert store.read() == STARTED


def test_only_who_saw_the_last_version_changes_it(store: Store):
    assert store.swap(0, STARTED)
    other = replace(STARTED, version=2, phase="full", weight=1.0)
    assert not store.swap(0, other)
    assert not store.swap(7, other)
    assert store.read() == STARTED
    assert store.swap(1, other)
    assert store.read() == other


def test_evidence_is_added_once_for_each_serial(store: Store):
    for _ in range(3):
        store.add("one", 1, 1, 0, {"compared": 2.0, "divergence.worse.0": -0.1})
    store.add("two", 1, 1, 0, {"compared": 3.0})
    store.add("one", 2, 1, 1, {"compared": 5.0})
    store.add("one", 1, 1, 1, {"compared": 100.0})
    store.add("one", 3, 2, 0, {"compared": 7.0})
    assert store.sums(1, 2) == [{"compared": 5.0, "divergence.worse.0": -0.1}, {"compared": 5.0}]
    assert store.sums(2, 1) == [{"compared": 7.0}]


def test_small_amounts_are_kept_exactly(store: Store):
    for serial in range(1, 101):
        store.add("one", serial, 1, 0, {"x": 1e-7 * serial, "y": -1 / 3})
    assert store.sums(1, 1) == [{"x": pytest.approx(5050e-7, rel=1e-12), "y": pytest.approx(-100 / 3)}]


@pytest.fixture(params=["sqlite", "redis"])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "rollout.db")
    server: RedisServer = request.getfixturevalue("redis_server")
    return server.url


def test_gateways_at_once_lose_nothing(shared: str):
    won = []

    def gateway(name: str) -> None:
        store = open_store(shared)
        for serial in range(1, 26):
            store.add(name, serial, 1, 0, {"compared": 1.0})
            state = store.read() or State()
            if store.swap(state.version, replace(state, version=state.version + 1)):
                won.append(name)
        store.close()

    threads = [threading.Thread(target=gateway, args=(f"gateway-{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store = open_store(shared)
    assert store.sums(1, 1) == [{"compared": 100.0}]
    kept = store.read()
    assert kept is not None
    assert kept.version == len(won) >= 25
    store.close()


def test_a_file_of_another_kind_or_schema_is_refused_by_name(tmp_path: Path):
    text = tmp_path / "notes.txt"
    text.write_text("these are notes, " * 100)
    with pytest.raises(StoreError, match=r"notes\.txt: the rollout's state: file is not a database"):
        open_store(str(text))
    assert text.read_text().startswith("these are notes")
    newer = tmp_path / "newer.db"
    db = sqlite3.connect(newer)
    db.execute("PRAGMA user_version = 9")
    db.close()
    with pytest.raises(StoreError, match="is of schema 9, this Kvant knows 1"):
        open_store(str(newer))
    with pytest.raises(StoreError, match="cannot be opened"):
        open_store(str(tmp_path / "nowhere" / "rollout.db"))


def test_a_state_that_cannot_be_read_is_an_error_not_a_start_from_nothing(tmp_path: Path):
    file = tmp_path / "rollout.db"
    store = open_store(str(file))
    store.swap(0, STARTED)
    db = sqlite3.connect(file)
    db.execute('UPDATE state SET body = \'{"phase": "shadow"}\'')
    db.commit()
    db.close()
    with pytest.raises(StoreError, match=r"rollout\.db"):
        store.read()
    store.close()


def test_a_lost_redis_is_an_error_soon_and_comes_back(redis_server: RedisServer):
    store = open_store(redis_server.url)
    store.swap(0, STARTED)
    redis_server.kill()
    for call in (store.read, lambda: store.swap(1, STARTED), lambda: store.sums(1, 1)):
        with pytest.raises(StoreError, match="Redis: the rollout's state"):
            call()
    redis_server.start()
    assert store.read() == STARTED
    store.close()


def test_an_address_that_is_none_is_refused():
    with pytest.raises(StoreError, match="address of Redis"):
        open_store("redis://host:port")


STRANGE: list[dict[str, object]] = [
    {"weight": "0.5"}, {"weight": 7}, {"weight": float("nan")}, {"weight": -0.5}, {"weight": None},
    {"phase": "most"}, {"stage": -3}, {"stage": 10**9}, {"version": "9"}, {"version": 2**80},
    {"dwelt": float("inf")}, {"salt": None}, {"paused": 1}, {"generation": True}, {"history": None},
    {"history": [{"at": 1}]}, {"more": 1},
]  # fmt: skip


@pytest.mark.parametrize("change", STRANGE, ids=str)
def test_what_is_no_state_is_refused_and_moves_no_traffic(tmp_path: Path, change: dict[str, object]):
    file = tmp_path / "rollout.db"
    store = open_store(str(file))
    controller = Controller(Plan(), store, "low-bit")
    controller.command("start", "ann")
    state = store.read()
    assert state is not None
    body = state.plain() | {"version": 9, "phase": "full", "weight": 1.0} | change
    with sqlite3.connect(file) as other:
        other.execute("UPDATE state SET version = 9, body = ?", (json.dumps(body),))
    with pytest.raises(StoreError):
        store.read()
    controller.tick()
    assert {controller.choose(str(n)) for n in range(50)} == {"baseline"}
    assert controller.status()["trouble"]
    assert Controller(Plan(), store, "low-bit").choose("x") == "baseline"
    store.close()


@pytest.mark.parametrize("value", ["nan", "-inf", "many"])
def test_a_sum_that_is_no_number_is_refused(redis_server: RedisServer, value: str):
    import redis

    store = open_store(redis_server.url)
    store.add("one", 1, 1, 0, {"compared": 2.0})
    with redis.Redis(unix_socket_path=f"{redis_server.folder}/s") as other:
        other.hset("kvant:{rollout}:evidence:1:0", "compared", value)
    with pytest.raises(StoreError):
        store.sums(1, 1)
    store.close()
