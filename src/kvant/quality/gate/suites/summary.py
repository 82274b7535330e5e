"""summary: a long document summed up, scored by the content words it shares with a reference.

A generated document has decisions spread over it, and its summary is all of them, the first of which is
shown. (A summary in free words is beyond small models: SmolLM2's share .3 % of their words with the text's
first sentences.) The score, F1 of distinct words, is coarse, but both arms are scored alike, and only their
difference counts.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kvant.errors import ConfigError
from kvant.quality.gate import recorded, stats
from kvant.quality.gate.client import Client
from kvant.quality.gate.material import Ruler, prose
from kvant.quality.gate.settings import Summary as Options
from kvant.quality.gate.suites import right
from kvant.quality.gate.suites.base import SHOWN, Example, Judgement, Pair
from kvant.quality.gate.suites.lexicon import DAYS, DEEDS, NAMES, THINGS
from kvant.quality.gate.verdict import loses_at_most

DECISIONS = 6
ASKED = "\n\nSummary of the text above, decision by decision:\n\n{first}\n\nDecision 2:"
STOP = f"Decision {DECISIONS + 1}:"
SHORTEST = 4
"""Letters of a content word."""
TAIL = 400


@dataclass(frozen=True)
class Task:
    prompt: str
    reference: str


class Summary:
    name = "summary"
    fewest = 8
    sizes = "summary.tokens and summary.answer"

    def __init__(self, options: Options) -> None:
        self.options = options

    def tasks(self, rng: random.Random, ruler: Ruler) -> Iterator[Sequence[Task]]:
        o = self.options
        if o.file:
            given = [
                Task(one.prompt, " ".join(one.expected)) for one in recorded.read(o.file) if one.expected
            ]
            if not all(one.prompt for one in given) or not given:
                raise ConfigError(f"{o.file}: a summary needs a prompt (or context) and answers")
            yield from recorded.drawn(rng, given, o.documents)
            return
        while True:
            yield [_task(rng, o.tokens * ruler.prose) for _ in range(o.documents)]

    def ask(self, client: Client, task: Task) -> str:
        stop = None if self.options.file else [STOP]
        return client.complete(task.prompt, self.options.answer, stop=stop).text

    def judge(self, pairs: Sequence[Pair], alpha: float) -> Judgement:
        marks = [tuple(score(p.task.reference, text) for text in (p.baseline, p.candidate)) for p in pairs]
        gap = [after - before for before, after in marks]
        method = f"{len(pairs)} documents, paired; a score is from 0 to 1"
        means = tuple(sum(mark[arm] for mark in marks) / max(1, len(marks)) for arm in (0, 1))
        check = loses_at_most(
            "score gained", stats.mean(gap, alpha, -1.0, 1.0), self.options.loss, method, means[0]
        )
        worst = sorted(zip(gap, pairs, strict=True), key=lambda found: found[0])[:SHOWN]
        examples = [
            Example(f"{lost:+.3f}", "…" + p.task.prompt[-TAIL:], p.baseline, p.candidate, p.task.reference)
            for lost, p in worst
        ]
        notes = right.little_to_lose(means[0])
        return Judgement([check], {"score": (means[0], means[1])}, examples, notes=notes)


def _task(rng: random.Random, characters: float) -> Task:
    names, deeds, things = (rng.sample(words, DECISIONS) for words in (NAMES, DEEDS, THINGS))
    made = [
        f"Decision {n}: {name} {deed} the {thing} on {rng.choice(DAYS)}."
        for n, (name, deed, thing) in enumerate(zip(names, deeds, things, strict=True), 1)
    ]
    asked = ASKED.format(first=made[0])
    text = prose(rng, characters - len(asked) - sum(map(len, made)))
    # From the end, so that the places before stay where they are.
    places = sorted(rng.choices(range(len(text) + 1), k=DECISIONS))
    for place, one in reversed(list(zip(places, made, strict=True))):
        text.insert(place, one)
    return Task("\n\n".join(text) + asked, " ".join(made[1:]))


def score(reference: str, text: str) -> float:
    """F1 of the sets of content words; Chinese is compared by character."""
    wanted, found = _words(reference), _words(text)
    shared = len(wanted & found)
    return 2 * shared / (len(wanted) + len(found)) if shared else 0.0


def _words(text: str) -> set[str]:
    return {
        word
        for word in re.findall(r"[\u3400-\u9fff]|[^\W\u3400-\u9fff]+", text.lower())
        if len(word) >= SHORTEST or "\u3400" <= word <= "\u9fff"
    }
