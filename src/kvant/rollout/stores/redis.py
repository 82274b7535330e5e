"""A Redis that several gateways share. Its own persistence decides what survives it: `appendonly yes` with
`appendfsync always` keeps what this store has confirmed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kvant.errors import StoreError
from kvant.rollout.state import State
from kvant.rollout.tally import Sums, sum_of

WAIT = 1.0
"""Seconds to connect and to answer; longer counts as lost."""
KEPT = 90 * 86_400
"""Seconds that evidence stays after the last addition."""

SWAP = """
local version = tonumber(redis.call('HGET', KEYS[1], 'version') or '0')
if version ~= tonumber(ARGV[1]) then return 0 end
redis.call('HSET', KEYS[1], 'version', ARGV[2], 'body', ARGV[3])
return 1
"""
ADD = """
local last = tonumber(redis.call('HGET', KEYS[2], ARGV[1]) or '0')
if last >= tonumber(ARGV[2]) then return 0 end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
for n = 4, #ARGV, 2 do redis.call('HINCRBYFLOAT', KEYS[1], ARGV[n], ARGV[n + 1]) end
redis.call('EXPIRE', KEYS[1], ARGV[3])
redis.call('EXPIRE', KEYS[2], ARGV[3])
return 1
"""


class Redis:
    """Every write is one script, so it happens whole or not at all. Keys begin with `kvant:{rollout}`; the
    braces keep them on one node of a cluster."""

    def __init__(self, url: str, prefix: str = "kvant:{rollout}") -> None:
        try:
            import redis
            from redis.backoff import NoBackoff
            from redis.retry import Retry
        except ImportError:
            raise StoreError("a rollout in Redis needs its client: pip install redis") from None
        self._error: type[Exception] = redis.RedisError
        self._prefix = prefix
        try:
            self._redis = redis.Redis.from_url(
                url,
                socket_timeout=WAIT,
                socket_connect_timeout=WAIT,
                decode_responses=True,
                retry=Retry(NoBackoff(), 0),
            )
        except ValueError as error:
            raise StoreError(f"the address of Redis is not valid: {error}") from None

    def read(self) -> State | None:
        with self._errors():
            body: Any = self._redis.hget(f"{self._prefix}:state", "body")
            return State.of(json.loads(body)) if body else None

    def swap(self, seen: int, state: State) -> bool:
        with self._errors():
            body = json.dumps(state.plain())
            return bool(self._redis.eval(SWAP, 1, f"{self._prefix}:state", seen, state.version, body))

    def add(self, source: str, serial: int, generation: int, stage: int, sums: Sums) -> None:
        keys = (self._evidence(generation, stage), f"{self._prefix}:sources:{generation}")
        pairs = [part for name, value in sums.items() for part in (name, repr(value))]
        with self._errors():
            self._redis.eval(ADD, 2, *keys, source, serial, KEPT, *pairs)

    def sums(self, generation: int, stages: int) -> list[Sums]:
        with self._errors():
            rows: list[Any] = [
                self._redis.hgetall(self._evidence(generation, stage)) for stage in range(stages)
            ]
            return [{name: sum_of(value) for name, value in row.items()} for row in rows]

    def _evidence(self, generation: int, stage: int) -> str:
        return f"{self._prefix}:evidence:{generation}:{stage}"

    def close(self) -> None:
        self._redis.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (self._error, OSError, ValueError, KeyError, TypeError) as error:
            raise StoreError(f"Redis: the rollout's state: {error}") from error
