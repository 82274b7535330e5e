"""Which calls are compared, and what becomes of it: a sample, within bounds, never in anyone's way."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from kvant.errors import EngineError
from kvant.gateway.answers import asked, compare
from kvant.gateway.answers.background import Background
from kvant.gateway.answers.breaker import Outcome
from kvant.gateway.answers.budget import Budget
from kvant.gateway.answers.compare import Apart, CandidateFails
from kvant.gateway.answers.examples import Examples
from kvant.gateway.answers.finished import Answer
from kvant.gateway.answers.fuse import outcome
from kvant.gateway.answers.score import Scorer
from kvant.gateway.answers.settings import Comparing
from kvant.gateway.answers.witness import answer_of
from kvant.gateway.call import Call, Served
from kvant.gateway.roles import Asker
from kvant.quality.gate.client import Unable
from kvant.rollout.evidence import BASELINE, CANDIDATE, Comparison, Serving

log = logging.getLogger("kvant.gateway.answers")

SKIPPED = ("sample", "kind", "ended", "in_flight", "load", "rate")
"""Why a call was not compared: not drawn; no single text over a text prompt; it did not end well; too many
at a time; an arm is loaded; too many this minute."""
TRIES = 3
"""Failures in a row after which an arm cannot score; the candidate, if it is alone, fails."""
AGAIN = 600.0
"""Seconds after which it is asked again."""

Judge = Callable[[Call, Answer], tuple[str, ...]]


class Comparer:
    """`kvant.gateway.roles.Watcher` of calls that no shadow `holds`; pairs of a shadow come through `pair`.

    `comparison` gets the evidence, `failed` that of a candidate that fails to score again and again what the
    baseline scores. `judge` names the signs of an answer.
    """

    def __init__(
        self,
        settings: Comparing,
        asker: Asker,
        now: Callable[[], float],
        comparison: Callable[[Comparison], None],
        judge: Judge,
        examples: Examples,
        holds: Callable[[Call], bool] = lambda call: False,
        wanted: Callable[[], bool] = lambda: True,
        draw: Callable[[], float] = random.random,
        failed: Callable[[Serving], None] = lambda seen: None,
    ) -> None:
        self._failed, self._alone = failed, 0
        self._settings, self._asker, self._now = settings, asker, now
        self._comparison, self._judge, self._examples = comparison, judge, examples
        self._holds, self._wanted, self._draw = holds, wanted, draw
        self._scorer = Scorer(asker, settings)
        self._budget = Budget(settings.per_minute)
        self._background = Background()
        self._unable_until, self._in_a_row = 0.0, 0
        self.skipped: Counter[str] = Counter(dict.fromkeys(SKIPPED, 0))
        self.failed = 0

    def began(self, call: Call, arm: str) -> None:
        pass

    def ended(self, served: Served) -> None:
        if not self._wanted() or self._holds(served.call):
            return
        if self._draw() >= self._settings.share:
            self.skipped["sample"] += 1
        else:
            self._start(served, None)

    def pair(self, served: Served, answer: Answer | None) -> None:
        """A call that a shadow answered too: it was drawn there, and both answers are judged."""
        if self._wanted() and answer is not None:
            self._start(served, answer)

    async def close(self) -> None:
        await self._background.close()

    def _start(self, served: Served, other: Answer | None) -> None:
        if reason := self._reason(served):
            self.skipped[reason] += 1
        else:
            self._background.start(self._compare(served, other))

    def _reason(self, served: Served) -> str:
        s, body = self._settings, served.call.body
        single = served.call.generates and asked.choices(body) == 1 and not body.get("use_beam_search")
        if not (single and served.text) or asked.carries_media(body):
            return "kind"
        if outcome(served) is not Outcome.GOOD:
            return "ended"
        if len(self._background) >= s.in_flight:
            return "in_flight"
        if max(map(self._asker.load, (BASELINE, CANDIDATE))) > s.watermark:
            return "load"
        return "" if self._budget.take(1, self._now()) else "rate"

    async def _compare(self, served: Served, other: Answer | None) -> None:
        try:
            apart = await self._apart(served)
        except EngineError:
            self.failed += 1
            return
        if apart is None:
            return
        at = self._now()
        self._show(served, other, apart, at)
        abnormal = {served.arm: await self._abnormal(served.call, answer_of(served))}
        if other is not None:
            abnormal[CANDIDATE] = await self._abnormal(served.call, other)
        self._comparison(
            Comparison(
                at, apart.divergence, apart.agreement, apart.positions,
                abnormal.get(BASELINE, False), abnormal.get(CANDIDATE, False), served.call.id,
            )
        )  # fmt: skip

    def _show(self, served: Served, other: Answer | None, apart: Apart, at: float) -> None:
        """Keeps an example: of two greedy answers the texts themselves, else what each arm expected."""
        if not self._examples.wanted:
            return
        shown: Apart | None = apart
        if other is not None and served.call.body.get("temperature") == 0:
            shown = compare.agreed(served.text, other.text)
        if shown is not None and shown.parted is not None:
            self._examples.add(replace(shown, divergence=apart.divergence).example(served.call, at))

    async def _abnormal(self, call: Call, answer: Answer) -> bool:
        return bool(await asyncio.to_thread(self._judge, call, answer))

    async def _apart(self, served: Served) -> Apart | None:
        if self._now() >= self._unable_until:
            try:
                apart = await compare.scored(self._scorer, served.call, served.text)
            except CandidateFails as error:
                self._count_alone(error)
                raise
            except EngineError as error:
                self._in_a_row += 1
                if not isinstance(error, Unable) and self._in_a_row < TRIES:
                    raise
                self._unable_until = self._now() + AGAIN
                log.warning("%s; greedy answers are compared instead, word by word", error)
            else:
                self._in_a_row = self._alone = 0
                return apart
        return await compare.answered(self._asker, served.call, self._settings)

    def _count_alone(self, error: CandidateFails) -> None:
        """One failure may be chance, in either arm: what comes in a row is held against the candidate."""
        self._alone += 1
        if self._alone == TRIES:
            log.warning("%s; the baseline scores the same texts: this counts as failures", error)
        if self._alone >= TRIES:
            self._failed(Serving(CANDIDATE, self._now(), failed=True, shadow=True))
