"""Requests that generate nothing: passed to the baseline as they are."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from kvant.gateway.arms.upstream import Broken, Unreachable, whole
from kvant.gateway.cast import BASELINE
from kvant.gateway.proxy.backend import Backend
from kvant.gateway.proxy.reply import Reply
from kvant.http import envelope
from kvant.http.body import Refused

SECONDS = 60.0


async def passed(
    backend: Backend,
    method: str,
    path: str,
    content: bytes | None,
    headers: Mapping[str, str],
    reply: Reply,
    call_id: str,
) -> None:
    """Answers the client with what a replica of the baseline says."""
    replica = backend.arms[BASELINE].pick(time.monotonic())
    assert replica is not None

    async def ask() -> None:
        async with backend.upstream.request(method, replica, path, content, headers) as answer:
            body = await whole(answer)
        if answer.status >= 400:
            raise Refused(envelope.understood(answer.status, body, call_id))
        await reply.whole(answer.status, answer.headers.get("content-type", "application/json"), body)

    try:
        await asyncio.wait_for(ask(), SECONDS)
    except asyncio.TimeoutError:
        raise Refused(envelope.bad_gateway(f"the engine did not answer in {SECONDS:g} s")) from None
    except Unreachable:
        replica.failed(time.monotonic())
        raise Refused(envelope.bad_gateway("no engine could be reached; try again")) from None
    except Broken:
        raise Refused(envelope.bad_gateway("the engine broke off its answer")) from None
