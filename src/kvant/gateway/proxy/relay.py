"""One call to an arm and back: another replica where nothing was sent yet, another arm where it tripped."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

import aiohttp

from kvant.gateway.answers.signs import REFUSAL
from kvant.gateway.answers.takeover import Continuation, continuation
from kvant.gateway.arms.replica import Replica
from kvant.gateway.arms.upstream import Broken, Unreachable, whole
from kvant.gateway.call import Call
from kvant.gateway.cast import Cast, read
from kvant.gateway.proxy.backend import Backend
from kvant.gateway.proxy.patience import Patience
from kvant.gateway.proxy.reply import Reply
from kvant.gateway.proxy.stream import Stream
from kvant.gateway.proxy.tally import Tally
from kvant.gateway.roles import Sentinel, Sign
from kvant.http import envelope
from kvant.http.envelope import Refusal

FINISH = "error"
"""Finish reason of an answer that was stopped; its stop reason is `kvant:` and the sign."""
ELSEWHERE = (502, 503)
"""What another replica may do better."""
OURS = (401, 403, 407)
"""Said to the gateway, of its own key: the client has no part in that, and must not read it."""


class Relay:
    """`run` answers the client; `Unreachable` or `Broken` where the arm does not let it."""

    def __init__(
        self, backend: Backend, cast: Cast, call: Call, reply: Reply, tally: Tally, headers: Mapping[str, str]
    ) -> None:
        self._backend, self._cast = backend, cast
        self._call, self._reply, self._tally = call, reply, tally
        self._headers = headers
        self._refuge: str | None = None
        self._refusal: Refusal | None = None
        """What the first arm said, while the refuge is asked."""

    async def run(self, arm: str, patience: Patience, usage: bool) -> None:
        """`usage`: whether the client of a stream asked for its last event."""
        stream = Stream(self._reply, self._tally, patience, self._backend.timeouts, usage)
        sentinel = self._cast.watch(self._call, arm)
        refuge = self._refuge = self._cast.refuge(self._call, arm)
        self._tally.absent = not self._backend.arms[arm].up(time.monotonic())
        if await self._answered(arm, self._call.body, stream, sentinel):
            return
        self._refuge = None
        if refuge is not None and self._refusal is not None:
            await self._second_opinion(refuge, stream, self._refusal)
            return
        assert sentinel is not None
        self._tally.tripped = sentinel.reason
        rest = self._rest(stream, sentinel)
        if refuge is None or rest is None:
            await self._stop(stream, sentinel)
            return
        stream.resume(rest)
        await self._answered(refuge, rest.body, stream, None)

    async def _second_opinion(self, refuge: str, stream: Stream, refusal: Refusal) -> None:
        """A refusal: of the request, if the other arm refuses it as well; else it is the arm's own fault."""
        self._tally.error = ""
        try:
            await self._answered(refuge, self._call.body, stream, None)
        except (Unreachable, Broken):
            if self._reply.status:
                raise
            # Nobody is there to ask, as after a release: the arm's word stands.
            self._tally.error = "refused"
            await self._reply.refuse(refusal)
        if not self._tally.error:
            self._tally.tripped = REFUSAL

    async def _answered(
        self, arm: str, body: Mapping[str, Any], stream: Stream, sentinel: Sentinel | None
    ) -> bool:
        """False where the sentinel tripped, or a refuge is to be asked about a refusal."""
        content = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        sent, tokens = stream.sent, self._tally.tokens
        tried: list[Replica] = []
        while True:
            replica = self._backend.pick(arm, self._call, tried)
            assert replica is not None
            tried.append(replica)
            self._tally.pace = replica.pace
            another = self._backend.pick(arm, self._call, tried) is not None
            stream.await_first()
            self._tally.replica = self._tally.replica if self._tally.tripped else replica.url
            try:
                async with self._backend.upstream.request(
                    "POST", replica, self._call.path, content, self._headers
                ) as answer:
                    if answer.status not in ELSEWHERE:
                        replica.answered()
                    if another and answer.status in ELSEWHERE:
                        continue
                    return await self._take(answer, stream, sentinel)
            except Unreachable:
                replica.failed(time.monotonic())
                if not another:
                    raise
            except Broken:
                # What was read of it, and perhaps kept back, would be mixed with what another writes.
                if not another or self._reply.status or stream.sent > sent or self._tally.tokens != tokens:
                    raise

    async def _take(self, answer: aiohttp.ClientResponse, stream: Stream, sentinel: Sentinel | None) -> bool:
        if answer.status == 200 and answer.content_type == "text/event-stream":
            return await stream.forward(answer, sentinel)
        body = await whole(answer)
        if answer.status in OURS or (answer.status < 400 and answer.status != 200):
            raise Broken("a status that is no answer")
        if answer.status != 200:
            self._tally.error = "arm" if answer.status >= 500 else "refused"
            refusal = envelope.understood(answer.status, body, self._call.id)
            if self._refuge is not None and answer.status < 500:
                self._refusal = refusal
                return False
            await self._reply.refuse(refusal)
            return True
        self._answer = _object(body)
        text = self._tally.answer(self._answer)
        if sentinel is not None and text and read(sentinel, text) is Sign.TRIP:
            return False
        await self._reply.whole(200, "application/json", body)
        return True

    def _rest(self, stream: Stream, sentinel: Sentinel) -> Continuation | None:
        """What the refuge is asked for; None where the client has what it should not, or more than text."""
        if not self._call.streams:
            return continuation(self._call, "", 0)
        if stream.sent > sentinel.clean() or self._tally.calls_tools or self._tally.reasoned:
            return None
        text = self._tally.text[: stream.sent]
        # Of a very long answer not all is remembered.
        return continuation(self._call, text, stream.sent_tokens) if len(text) == stream.sent else None

    async def _stop(self, stream: Stream, sentinel: Sentinel) -> None:
        reason = f"kvant:{sentinel.reason}"
        self._tally.finish = FINISH
        if self._call.streams:
            await stream.finish(reason, FINISH)
            return
        for choice in self._answer.get("choices", [])[:1]:
            choice |= {"finish_reason": FINISH, "stop_reason": reason}
            place, name = (choice["message"], "content") if "message" in choice else (choice, "text")
            place[name] = place[name][: sentinel.clean()]
        await self._reply.whole(200, "application/json", json.dumps(self._answer).encode())


def _object(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("choices"), list) or not found["choices"]:
        raise Broken("an answer that is no JSON object with choices")
    return found
