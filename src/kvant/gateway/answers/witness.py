"""What each answer says of its arm: errors, times, signs of degeneration -> `Serving`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kvant.gateway.answers import finished
from kvant.gateway.answers.background import Background
from kvant.gateway.answers.breaker import Outcome
from kvant.gateway.answers.finished import Answer, Usual
from kvant.gateway.answers.fuse import outcome
from kvant.gateway.call import Call, Served
from kvant.rollout.evidence import BASELINE, CANDIDATE, Serving


class Witness:
    """`kvant.gateway.roles.Watcher`. `serving` gets the evidence; `learn` whether an answer of the baseline
    was abnormal; `guarded` is whether sentinels watch the candidate."""

    def __init__(
        self,
        serving: Callable[[Serving], None],
        learn: Callable[[bool], None] = lambda abnormal: None,
        guarded: bool = False,
    ) -> None:
        self._serving, self._learn, self._guarded = serving, learn, guarded
        self._usual = Usual()
        self._background = Background()

    def began(self, call: Call, arm: str) -> None:
        pass

    def ended(self, served: Served) -> None:
        if served.call.generates and outcome(served) is not Outcome.NEITHER:
            self._background.start(self._weigh(served))

    def shadowed(self, served: Served, answer: Answer | None) -> None:
        """The candidate's answer to a copy of this call; None where it gave none."""
        if outcome(served) is Outcome.GOOD:
            self._background.start(self._weigh_copy(served, answer))

    def signs(self, call: Call, answer: Answer, watched: bool = False) -> tuple[str, ...]:
        """Its signs, against the lengths usual so far. Some milliseconds for a long text."""
        return finished.found(call, answer, self._usual, watched)

    async def close(self) -> None:
        await self._background.close()

    async def _weigh(self, served: Served) -> None:
        good = outcome(served) is Outcome.GOOD
        names: tuple[str, ...] = (served.tripped,) if served.tripped else ()
        if good:
            watched = self._guarded and served.arm != BASELINE
            names = await asyncio.to_thread(self.signs, served.call, answer_of(served), watched)
            if served.arm == BASELINE:
                self._usual.add(served.tokens)
                self._learn(bool(names))
        gaps = served.gaps
        self._serving(
            Serving(
                arm=served.arm,
                at=served.call.at + served.seconds,
                failed=outcome(served) is Outcome.FAILED,
                first_token=served.first,
                per_token=sum(gaps) / len(gaps) if gaps else None,
                degenerate=bool(names),
            )
        )

    async def _weigh_copy(self, served: Served, answer: Answer | None) -> None:
        names = () if answer is None else await asyncio.to_thread(self.signs, served.call, answer)
        at = served.call.at + served.seconds
        self._serving(Serving(CANDIDATE, at, failed=answer is None, degenerate=bool(names), shadow=True))


def answer_of(served: Served) -> Answer:
    return Answer(served.text, served.finish, served.tokens, served.tools)
