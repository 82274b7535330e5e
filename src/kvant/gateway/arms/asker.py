"""The gateway's own questions to arms."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from typing import Any

from kvant.errors import EngineError, NoRoom
from kvant.gateway.arms.arm import Arm
from kvant.gateway.arms.replica import Replica
from kvant.gateway.arms.upstream import Broken, Unreachable, Upstream, whole

FULL = (429, 503)


class ArmAsker:
    """Sends one question to the emptiest replica of an arm, once."""

    def __init__(self, arms: Mapping[str, Arm], upstream: Upstream) -> None:
        self._arms, self._upstream = arms, upstream

    async def ask(
        self,
        arm: str,
        path: str,
        body: Mapping[str, Any],
        *,
        seconds: float,
        headers: Mapping[str, str] | None = None,
    ) -> Mapping[str, Any]:
        """The JSON answer; `EngineError` where none comes, `NoRoom` where the arm is full or takes too long,
        as such questions come after all others. Its words never hold the question."""
        replica = self._arms[arm].pick(time.monotonic())
        if replica is None:
            raise EngineError(f"arm {arm} has no replica")
        payload = json.dumps({**body, "stream": False}).encode()
        try:
            return await asyncio.wait_for(self._ask(replica, path, payload, headers or {}), seconds)
        except asyncio.TimeoutError:
            raise NoRoom(f"arm {arm} did not answer {path} in {seconds:g} s") from None
        except (Unreachable, Broken) as error:
            raise EngineError(f"arm {arm} did not answer {path}: {error}") from None

    async def _ask(self, replica: Replica, path: str, body: bytes, headers: Mapping[str, str]) -> Any:
        async with self._upstream.request("POST", replica, path, body, headers) as answer:
            if answer.status != 200:
                kind = NoRoom if answer.status in FULL else EngineError
                raise kind(f"{replica.url} answered {path} with status {answer.status}")
            content = await whole(answer)
        try:
            found = json.loads(content)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise EngineError(f"{replica.url} answered {path} with no JSON object")
        return found

    def load(self, arm: str) -> float:
        """How full the arm is, 0 to 1; an arm that is not up has no room."""
        found = self._arms[arm]
        return found.load() if found.up(time.monotonic()) else 1.0
