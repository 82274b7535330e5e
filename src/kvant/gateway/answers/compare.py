"""Two arms on one call: KL of what they expect at each token of the answer, or where greedy answers part."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from kvant.errors import EngineError, NoRoom
from kvant.gateway.answers import asked, mirror, response
from kvant.gateway.answers.examples import SHOWN, Example
from kvant.gateway.answers.score import Expected, Scorer
from kvant.gateway.answers.settings import Comparing
from kvant.gateway.call import Call
from kvant.gateway.roles import Asker
from kvant.quality.gate.client import Unable
from kvant.quality.gate.logprobs import divergence, first
from kvant.quality.generation.detectors import units
from kvant.rollout.evidence import BASELINE, CANDIDATE


class CandidateFails(EngineError):
    """The candidate does not score a text that the baseline does: its logits are no numbers, for one."""


@dataclass(frozen=True)
class Apart:
    """`divergence` in nats, None where only answers were compared; `agreement` is the share of `positions`
    (tokens, or words where only answers were compared) of which both expect the same. The rest says where
    they first part; empty where they do not."""

    divergence: float | None
    agreement: float
    positions: int
    parted: int | None = None
    shared: str = ""
    baseline: str = ""
    candidate: str = ""

    def example(self, call: Call, at: float) -> Example:
        end, shared = asked.text(call.body)[-SHOWN:], self.shared[-SHOWN:]
        before, after = self.baseline[:SHOWN], self.candidate[:SHOWN]
        return Example(call.id, at, end, shared, before, after, self.parted or 0, self.divergence)


async def scored(scorer: Scorer, call: Call, text: str) -> Apart | None:
    """Both arms read the prompt and this answer; None where it has no token. `CandidateFails` where only the
    candidate does not, unless it has no room, or says nothing of the kind to anybody (`Unable`)."""
    reading = await scorer.reading(BASELINE, call, text)
    if not reading.first or reading.first == len(reading.ids):
        return None
    before, after = await asyncio.gather(
        *(scorer.expected(arm, call, reading) for arm in (BASELINE, CANDIDATE)), return_exceptions=True
    )
    if isinstance(before, BaseException):
        raise before
    if isinstance(after, EngineError) and not isinstance(after, NoRoom | Unable):
        raise CandidateFails(str(after))
    if isinstance(after, BaseException):
        raise after
    return await asyncio.to_thread(_apart, before, after, reading.ids[reading.first :])


def _apart(before: Sequence[Expected], after: Sequence[Expected], answer: Sequence[int]) -> Apart:
    pairs = list(zip(before, after, strict=True))
    mean = sum(divergence(b.likely, c.likely) for b, c in pairs) / len(pairs)
    same = [first(b.likely) == first(c.likely) for b, c in pairs]
    agreement = sum(same) / len(same)
    if all(same):
        return Apart(mean, agreement, len(pairs))
    parted = same.index(False)
    shared = "".join(b.words.get(token, "") for b, token in zip(before[:parted], answer, strict=False))
    baseline, candidate = (one[parted].words[first(one[parted].likely)] for one in (before, after))
    return Apart(mean, agreement, len(pairs), parted, shared, baseline, candidate)


async def answered(asker: Asker, call: Call, settings: Comparing) -> Apart | None:
    """Both arms answer greedily; None where neither wrote a word."""
    body = {**mirror.copy(call.body, settings.answer, settings.priority), "temperature": 0}
    found = await asyncio.gather(
        *(
            asker.ask(arm, call.path, body, seconds=settings.seconds, headers=mirror.LOW)
            for arm in (BASELINE, CANDIDATE)
        )
    )
    return agreed(response.answer(found[0], BASELINE).text, response.answer(found[1], CANDIDATE).text)


def agreed(before: str, after: str) -> Apart | None:
    """Two greedy answers to one prompt, word by word up to the first in which they part: from there on the
    arms no longer read the same."""
    mine, theirs = units(before), units(after)
    longer = max(len(mine), len(theirs))
    if not longer:
        return None
    common = _shared(mine, theirs)
    if common == longer:
        return Apart(None, 1.0, longer)
    place, read = _shared(before, after), common + 1
    return Apart(None, common / read, read, common, before[:place], before[place:], after[place:])


def _shared(before: Sequence[str], after: Sequence[str]) -> int:
    """How many first items are the same."""
    shorter = min(len(before), len(after))
    return next((n for n in range(shorter) if before[n] != after[n]), shorter)
