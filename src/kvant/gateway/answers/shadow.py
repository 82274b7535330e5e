"""Copies of the baseline's calls for the candidate. Nobody waits for them, pays for them or sees them.

A copy is sent beside its call, once; a client that leaves ends its copy; under load copies go first.
Every call that was not copied is counted with the reason, so that it is known what a comparison leaves out.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from kvant.errors import EngineError, NoRoom
from kvant.gateway.answers import asked, mirror, response
from kvant.gateway.answers import settings as sections
from kvant.gateway.answers.background import Background
from kvant.gateway.answers.budget import Budget
from kvant.gateway.answers.finished import Answer
from kvant.gateway.call import Call, Served
from kvant.gateway.roles import Asker
from kvant.rollout.evidence import BASELINE, CANDIDATE

SKIPPED = ("sample", "kind", "tools", "twice", "in_flight", "load", "size", "tokens")
"""Why a call was not copied: not drawn; not one text asked for; tools with effects; its id is under way; too
many copies; the candidate is loaded; too large; the tokens of this minute are spent."""
ENDED = ("answered", "failed", "left", "shed")
"""What became of a copy. No evidence: its client left; load came up, the candidate had no room for it, or it
was not done in its time, as copies wait behind all else."""
CHARACTERS = 4
"""Of a token, for an estimate."""
LONGEST_CALL = 3600.0
"""Seconds that a copy waits for its call to end."""


@dataclass
class Copy:
    """One copy under way, and how its call went."""

    task: asyncio.Task[None]
    served: asyncio.Future[Served] = field(default_factory=asyncio.Future)


class Shadow:
    """`kvant.gateway.roles.Watcher`. `pair` gets the call as served and the candidate's answer, None where it
    failed; `wanted` says whether the release is in a phase with shadows."""

    def __init__(
        self,
        settings: sections.Shadow,
        asker: Asker,
        now: Callable[[], float],
        pair: Callable[[Served, Answer | None], None],
        wanted: Callable[[], bool] = lambda: True,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._settings, self._asker, self._now, self._pair = settings, asker, now, pair
        self._wanted, self._draw = wanted, draw
        self._budget = Budget(settings.tokens_per_minute)
        self._running: dict[str, Copy] = {}
        self._background = Background()
        self.skipped: Counter[str] = Counter(dict.fromkeys(SKIPPED, 0))
        self.ended_as: Counter[str] = Counter(dict.fromkeys(ENDED, 0))

    def began(self, call: Call, arm: str) -> None:
        if arm != BASELINE:
            self._shed()
            return
        if not self._wanted():
            return
        cost = 0.0
        if not (reason := self._reason(call)):
            size = asked.size(call.body, self._settings.max_bytes)
            cost = size / CHARACTERS + self._answer(call)
            if size > self._settings.max_bytes:
                reason = "size"
            elif not self._budget.take(cost, self._now()):
                reason = "tokens"
        if reason:
            self.skipped[reason] += 1
            return
        copy = Copy(self._background.start(self._mirror(call, cost)))
        self._running[call.id] = copy
        # A task that is cancelled before its first step runs none of its code.
        copy.task.add_done_callback(lambda _: self._running.pop(call.id, None))

    def ended(self, served: Served) -> None:
        copy = self._running.get(served.call.id)
        if copy is None or served.arm != BASELINE:
            return
        if served.status == 499:
            self._end(copy, "left")
        elif not copy.served.done():
            copy.served.set_result(served)

    def holds(self, call: Call) -> bool:
        """Whether a copy of this call is under way, or waits for it to end."""
        return call.id in self._running

    async def close(self) -> None:
        await self._background.close()

    def _reason(self, call: Call) -> str:
        """Why not to copy, as far as that is cheap to find out; empty if nothing speaks against it."""
        s = self._settings
        if self._draw() >= s.share:
            return "sample"
        if not call.generates or asked.choices(call.body) != 1:
            return "kind"
        if mirror.acts(call.body):
            return "tools"
        if call.id in self._running:
            return "twice"
        if len(self._running) >= s.in_flight:
            return "in_flight"
        return "load" if self._asker.load(CANDIDATE) > s.watermark else ""

    def _answer(self, call: Call) -> int:
        """Most tokens of a copy's answer."""
        limit = asked.limit(call.body)
        return self._settings.max_tokens if limit is None else max(0, min(limit, self._settings.max_tokens))

    async def _mirror(self, call: Call, cost: float) -> None:
        s = self._settings
        body = mirror.copy(call.body, s.max_tokens, s.priority)
        answer: Answer | None = None
        try:
            found = await self._asker.ask(CANDIDATE, call.path, body, seconds=s.seconds, headers=mirror.LOW)
            answer = response.answer(found, CANDIDATE)
            self._budget.settle(cost - answer.used)
        except NoRoom:
            self.ended_as["shed"] += 1
            return
        except EngineError:
            pass  # counted below; nothing is known of its cost, so the estimate stands
        served = self._running[call.id].served
        await asyncio.wait({served}, timeout=LONGEST_CALL)
        self.ended_as["answered" if answer else "failed"] += 1
        if served.done():
            self._pair(served.result(), answer)

    def _shed(self) -> None:
        """Calls of users come first."""
        if self._running and self._asker.load(CANDIDATE) > self._settings.watermark:
            for copy in tuple(self._running.values()):
                self._end(copy, "shed")

    def _end(self, copy: Copy, why: str) -> None:
        if not copy.task.done() and copy.task.cancel():
            self.ended_as[why] += 1
