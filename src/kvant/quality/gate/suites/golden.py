"""golden: recorded prompts, answered greedily by both arms and compared as far as both read the same text.

Up to the first token in which two answers part, and at it, both arms saw the same: there their
log-probabilities can be compared, from nothing but OpenAI's API. An answer that parts where the baseline
itself found both tokens about as likely is no fault.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kvant.quality.gate import recorded, stats
from kvant.quality.gate.client import Answer, Client
from kvant.quality.gate.logprobs import divergence, unlisted
from kvant.quality.gate.material import Ruler, prose
from kvant.quality.gate.recorded import Prompt
from kvant.quality.gate.settings import Golden as Options
from kvant.quality.gate.suites import right
from kvant.quality.gate.suites.base import SHOWN, Example, Judgement, Pair
from kvant.quality.gate.verdict import at_most, loses_at_most
from kvant.recipes.texts import FOLDER

CONTEXT = 300


@dataclass(frozen=True)
class Parted:
    """Where two answers part (None: they do not), by how many nats the baseline preferred its own, at least.

    Where one ends and the other goes on, without a token that says so, nobody knows: infinitely many.
    `kl` is the sum over the `read` tokens before which both had read the same.
    """

    at: int | None
    nats: float
    kl: float
    read: int


class Golden:
    name = "golden"
    fewest = 12
    sizes = "golden.context and golden.tokens"

    def __init__(self, options: Options) -> None:
        self.options = options

    def tasks(self, rng: random.Random, ruler: Ruler) -> Iterator[Sequence[Prompt]]:
        o = self.options
        if o.file:
            yield from recorded.drawn(rng, recorded.read(o.file), o.prompts)
            return
        while True:
            yield rng.sample(_shipped(rng, o.context * ruler.prose, o.prompts), o.prompts)

    def ask(self, client: Client, task: Prompt) -> Answer:
        tokens = task.tokens or self.options.tokens
        if task.messages:
            return client.chat(task.messages, tokens, self.options.top)
        return client.complete(task.prompt, tokens, self.options.top)

    def judge(self, pairs: Sequence[Pair], alpha: float) -> Judgement:
        o = self.options
        parted = [compare(pair.baseline, pair.candidate) for pair in pairs]
        clear = [one.at is not None and one.nats > o.tie for one in parted]
        read = [one for one in parted if one.read]
        kl = stats.ratio([one.kl for one in read], [one.read for one in read], alpha, least=0.0)
        checks = [
            at_most("KL (nats)", kl, o.kl, f"{len(read)} answers, to where they part"),
            at_most(
                "part clearly",
                stats.proportion(sum(clear), len(pairs), alpha),
                o.parted,
                f"Clopper-Pearson: {sum(clear)} of {len(pairs)} answers",
            ),
        ]
        scores: dict[str, tuple[float, float]] = {}
        wrong: list[Example] = []
        notes: list[str] = []
        expecting = [pair for pair in pairs if pair.task.expected]
        if expecting:
            marks = [tuple(_right(p.task, a.text) for a in (p.baseline, p.candidate)) for p in expecting]
            both = [(mark[0], mark[1]) for mark in marks]
            had, has = (sum(mark[arm] for mark in both) / len(both) for arm in (0, 1))
            checks.append(
                loses_at_most(
                    "expected answers gained", stats.gain(both, alpha), o.loss, "exact, paired", had
                )
            )
            scores["expected"] = had, has
            missed = (_whole(pair) for pair, mark in zip(expecting, both, strict=True) if not any(mark))
            wrong, notes = right.both_wrong(missed, had), right.little_to_lose(had)
        apart = [(pair, one) for pair, one in zip(pairs, parted, strict=True) if one.at is not None]
        apart.sort(key=lambda found: -found[1].nats)
        same = sum(one.at is None for one in parted)
        return Judgement(
            checks,
            scores,
            [*(_example(pair, one) for pair, one in apart[:SHOWN]), *wrong],
            notes=[f"{same} of {len(pairs)} answers are the same token by token", *notes],
        )


def compare(before: Answer, after: Answer) -> Parted:
    """Two answers to one prompt, each token with its likeliest alternatives."""
    shared = min(len(before.likely), len(after.likely))
    at = next((n for n in range(shared) if before.tokens[n] != after.tokens[n]), None)
    read = shared if at is None else at + 1
    kls = [divergence(before.likely[n], after.likely[n]) for n in range(read)]
    if at is not None:
        here = before.likely[at]
        nats = here[before.tokens[at]] - here.get(after.tokens[at], unlisted(here))
        return Parted(at, nats, sum(kls), read)
    if len(before.tokens) != len(after.tokens):
        return Parted(shared, math.inf, sum(kls), read)
    return Parted(None, 0.0, sum(kls), read)


def _shipped(rng: random.Random, characters: float, count: int) -> list[Prompt]:
    """A question of the shipped conversations after a long text, so that the cache holds what is read."""
    turns: list[list[str]] = json.loads((FOLDER / "chat.json").read_text(encoding="utf-8"))
    questions = [question for talk in turns for question in talk[::2]]
    asked = [questions[n % len(questions)] for n in range(count)]
    return [
        Prompt(prompt="\n\n".join([*prose(rng, characters), f"Question: {one}\nAnswer:"])) for one in asked
    ]


def _right(task: Prompt, answer: str) -> bool:
    return any(one.strip().lower() in answer.lower() for one in task.expected)


def _example(pair: Pair, parted: Parted) -> Example:
    at = parted.at or 0
    task: Prompt = pair.task
    shared = "".join(pair.baseline.tokens[:at])
    asked = task.prompt or str(_last(task.messages))
    before, after = ("".join(answer.tokens[at:]) for answer in (pair.baseline, pair.candidate))
    how = f"the baseline preferred its own by {parted.nats:.2f} nats" if before and after else "one has ended"
    where = f"token {at + 1}, {how}"
    return Example(where, f"…{asked[-CONTEXT:]}{shared}", before, after, " | ".join(task.expected))


def _whole(pair: Pair) -> Example:
    """Both answers from their start."""
    task: Prompt = pair.task
    asked = task.prompt or str(_last(task.messages))
    expected = " | ".join(task.expected)
    return Example("", f"…{asked[-CONTEXT:]}", pair.baseline.text, pair.candidate.text, expected)


def _last(messages: Sequence[Mapping[str, Any]]) -> Any:
    return messages[-1].get("content", "") if messages else ""
