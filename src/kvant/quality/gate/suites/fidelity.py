"""fidelity: given text through both arms; how far apart what they expect at every position is.

The strongest suite: each of some thousand positions is a paired measurement, and a fault of the cache
moves all of them.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvant.errors import EngineError
from kvant.quality.gate import stats
from kvant.quality.gate.client import Client, Scored
from kvant.quality.gate.logprobs import divergence, first
from kvant.quality.gate.material import Ruler, code, prose
from kvant.quality.gate.settings import Fidelity as Options
from kvant.quality.gate.suites.base import SHOWN, Example, Judgement, Pair
from kvant.quality.gate.verdict import at_most

SKIP = 17 / 32
"""Share of a passage that is only context, as in `kvant fidelity`."""
RUN = 32
"""Neighbouring positions that count as one unit of an interval."""
CONTEXT = 48
LIKELY = 3


@dataclass(frozen=True)
class Task:
    kind: str
    text: str


class Fidelity:
    name = "fidelity"
    fewest = 1
    sizes = "fidelity.tokens"

    def __init__(self, options: Options) -> None:
        self.options = options

    def tasks(self, rng: random.Random, ruler: Ruler) -> Iterator[Sequence[Task]]:
        size = self.options.tokens
        made = (
            lambda: Task("prose", "\n\n".join(prose(rng, size * ruler.prose))[: int(size * ruler.prose)]),
            lambda: Task("code", code(rng, size * ruler.code)),
        )
        while True:
            yield [made[n % 2]() for n in range(self.options.texts)]

    def ask(self, client: Client, task: Task) -> Scored:
        return client.score(task.text, self.options.top)

    def judge(self, pairs: Sequence[Pair], alpha: float) -> Judgement:
        found = [_scores(pair) for pair in pairs]
        kl, other, loss = (
            np.concatenate([stats.runs(one[n], RUN) for one in found] or [np.array([])]) for n in range(3)
        )
        n = sum(len(one[0]) for one in found)
        method = f"{len(kl)} runs of {RUN} of {n} positions in {len(pairs)} texts"
        perplexity = stats.mean(loss, alpha)
        grown = stats.Interval(*(_expm1(x) for x in (perplexity.value, perplexity.low, perplexity.high)))
        o = self.options
        checks = [
            at_most("KL (nats)", stats.mean(kl, alpha, least=0.0), o.kl, method),
            at_most("top-1 differs", stats.share(other, RUN, alpha), o.top1, method),
            at_most("perplexity grows", grown, o.perplexity, method),
        ]
        scores = {"perplexity": (_perplexity(pairs, 0), _perplexity(pairs, 1))} if pairs else {}
        return Judgement(checks, scores, _furthest(pairs, found))


Arrays = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]


def _scores(pair: Pair) -> Arrays:
    """Of the scored positions: KL, whether the likeliest token differs, and log-loss added."""
    before, after = pair.baseline, pair.candidate
    if before.ids != after.ids:
        raise EngineError("the arms read the same text as different tokens: they do not serve one model")
    skip = _skip(before)
    both = list(zip(before.expected, after.expected, strict=True))[skip:]
    kl = np.array([divergence(p, q) for p, q in both])
    other = np.array([float(first(p) != first(q)) for p, q in both])
    return kl, other, np.array(after.losses[skip:]) - np.array(before.losses[skip:])


def _skip(scored: Scored) -> int:
    return int(len(scored.ids) * SKIP)


def _perplexity(pairs: Sequence[Pair], arm: int) -> float:
    losses = [
        loss for pair in pairs for loss in (pair.baseline, pair.candidate)[arm].losses[_skip(pair.baseline) :]
    ]
    return math.exp(min(700.0, float(np.mean(losses))))


def _expm1(x: float) -> float:
    return math.expm1(min(x, 700.0))


def _furthest(pairs: Sequence[Pair], found: Sequence[Arrays]) -> list[Example]:
    """The positions with the largest KL."""
    places = sorted(
        ((float(kl), number, at) for number, (one, *_) in enumerate(found) for at, kl in enumerate(one)),
        reverse=True,
    )[:SHOWN]
    examples = []
    for kl, number, at in places:
        before, after = pairs[number].baseline, pairs[number].candidate
        position = at + _skip(before)
        words = "".join(before.words[max(0, position + 1 - CONTEXT) : position + 1])
        where = f"{pairs[number].task.kind} {number + 1}, position {position + 1}, KL {kl:.3g}"
        examples.append(
            Example(
                where,
                "…" + words,
                _likely(before, position),
                _likely(after, position),
                before.words[position + 1],
            )
        )
    return examples


def _likely(scored: Scored, position: int) -> str:
    here, spelt = scored.expected[position], scored.spelt[position]
    best = sorted(here, key=lambda token: -here[token])[:LIKELY]
    return ", ".join(f"{spelt[token]!r} {math.exp(here[token]):.1%}" for token in best)
