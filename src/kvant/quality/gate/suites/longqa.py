"""longqa: a question about one of many alike records, spread over a long document."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence

from kvant.quality.gate import recorded
from kvant.quality.gate.client import Client
from kvant.quality.gate.material import SURELY, Ruler, prose
from kvant.quality.gate.recorded import Prompt
from kvant.quality.gate.settings import Longqa as Options
from kvant.quality.gate.suites import right
from kvant.quality.gate.suites.base import Example, Judgement, Pair
from kvant.quality.gate.suites.lexicon import NAMES

FACTS = {
    "keeps a": ("parrot", "rabbit", "tortoise", "donkey", "falcon", "goat", "horse", "lizard"),
    "works as a": ("baker", "carpenter", "dentist", "gardener", "lawyer", "pilot", "tailor", "painter"),
    "lives in": ("Lisbon", "Cairo", "Oslo", "Kyoto", "Dublin", "Quito", "Warsaw", "Nairobi"),
}
"""What is told of everyone, and what it may be."""
PEOPLE = 4
"""Of eight, SmolLM2 mixes some up in 16 bits already."""
ANSWER = 12
TAIL = 500


class Longqa:
    name = "longqa"
    fewest = 12
    sizes = "longqa.tokens"

    def __init__(self, options: Options) -> None:
        self.options = options

    def tasks(self, rng: random.Random, ruler: Ruler) -> Iterator[Sequence[Prompt]]:
        o = self.options
        if o.file:
            found = [one for one in recorded.read(o.file) if one.expected]
            yield from recorded.drawn(rng, found, o.questions)
            return
        while True:
            yield [_task(rng, o.tokens * ruler.prose) for _ in range(o.questions)]

    def ask(self, client: Client, task: Prompt) -> str:
        tokens = task.tokens or (64 if self.options.file else ANSWER)
        if task.messages:
            return client.chat(task.messages, tokens).text
        least = 0 if self.options.file else SURELY * self.options.tokens
        return client.complete(task.prompt, tokens, least=least).text

    def judge(self, pairs: Sequence[Pair], alpha: float) -> Judgement:
        judged = _contained if self.options.file else _begins
        return right.judge(pairs, judged, _example, self.options.loss, alpha)


def _task(rng: random.Random, characters: float) -> Prompt:
    people = rng.sample(NAMES, PEOPLE)
    told = {verb: rng.sample(things, PEOPLE) for verb, things in FACTS.items()}
    records = [
        " ".join(f"{name} {verb} {things[n]}." for verb, things in told.items())
        for n, name in enumerate(people)
    ]
    asked, verb = rng.randrange(PEOPLE), rng.choice(list(FACTS))
    text = prose(rng, characters - sum(map(len, records)))
    for record in records:
        text.insert(rng.randrange(len(text) + 1), record)
    question = f"\n\nAs was said above of {people[asked]}: {people[asked]} {verb}"
    return Prompt("\n\n".join(text) + question, expected=(told[verb][asked],))


def _begins(task: Prompt, answer: str) -> bool:
    return answer.strip().lower().startswith(task.expected[0].lower())


def _contained(task: Prompt, answer: str) -> bool:
    plain = _plain(answer)
    return any(_plain(one) in plain if _plain(one) else one in answer for one in task.expected)


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))


def _example(pair: Pair) -> Example:
    task: Prompt = pair.task
    asked = task.prompt or str(task.messages[-1].get("content", ""))
    return Example("", "…" + asked[-TAIL:], pair.baseline, pair.candidate, " | ".join(task.expected))
