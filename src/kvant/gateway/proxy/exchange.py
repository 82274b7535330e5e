"""A call from admission to its end: who is told, when it is cut, and what is known of it afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import traceback
from collections.abc import Mapping
from typing import Any

from kvant.gateway.arms.upstream import Broken, Unreachable
from kvant.gateway.call import Call, Served
from kvant.gateway.cast import Cast
from kvant.gateway.proxy.backend import Backend
from kvant.gateway.proxy.patience import Patience
from kvant.gateway.proxy.relay import Relay
from kvant.gateway.proxy.reply import Reply
from kvant.gateway.proxy.tally import Tally
from kvant.http import envelope
from kvant.http.envelope import Refusal

log = logging.getLogger("kvant.gateway")

FAREWELL_SECONDS = 5.0
"""How long a client may take to read why its request was cut."""
GONE = 499


class Exchange:
    """One call. `cut` ends it from outside."""

    def __init__(
        self, backend: Backend, cast: Cast, call: Call, reply: Reply, headers: Mapping[str, str]
    ) -> None:
        self._backend, self._cast, self._call, self._reply = backend, cast, call, reply
        self._headers = headers
        self._patience: Patience | None = None

    def cut(self, word: str) -> None:
        """Ends the call with this word from `_refusal`."""
        if self._patience is not None:
            self._patience.over(word)

    async def run(self, gone: asyncio.Future[Any], arm: str, usage: bool) -> Served:
        """Answers the client, or lets it go once `gone` is done; never raises but where it is cancelled."""
        tally = Tally(self._call)
        relay = Relay(self._backend, self._cast, self._call, self._reply, tally, self._headers)
        self._patience = patience = Patience(self._backend.timeouts.total)
        work = asyncio.ensure_future(relay.run(arm, patience, usage))
        patience.stop = work.cancel
        try:
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
            left = not work.done() and not patience.ended
            if not work.done():
                work.cancel()
                await asyncio.wait({work})
            if self._reply.ended:
                pass  # the client has its answer, whatever happened after that
            elif left:
                tally.error = "cancelled"
            elif (refusal := self._refusal(work, patience, tally)) is not None:
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._reply.refuse(refusal), FAREWELL_SECONDS)
        finally:
            patience.close()
            work.cancel()
        status = GONE if tally.error in ("cancelled", "client") else self._reply.status
        return tally.served(arm, status, time.monotonic())

    def _refusal(self, work: asyncio.Task[None], patience: Patience, tally: Tally) -> Refusal | None:
        """What the client hears of a call that did not end well; None where it did."""
        if patience.ended == "draining":
            tally.error = "draining"
            return envelope.unavailable("draining", "the service is shutting down")
        if patience.ended:
            tally.error = "client" if patience.ended == "client" else "timeout"
            seconds = getattr(self._backend.timeouts, patience.ended)
            return envelope.timed_out(seconds, f"timeouts.{patience.ended}")
        error = None if work.cancelled() else work.exception()
        if error is None:
            return None
        if isinstance(error, Unreachable):
            tally.error = "unreachable"
            return envelope.bad_gateway("no engine could be reached; try again")
        if isinstance(error, Broken):
            tally.error = "broken"
            return envelope.bad_gateway("the engine broke off its answer")
        # Neither the message nor the locals: they may hold the prompt.
        frames = "".join(traceback.format_tb(error.__traceback__))
        log.error("request %s failed with %s\n%s", self._call.id, type(error).__name__, frames)
        tally.error = "internal"
        return envelope.internal(self._call.id)
