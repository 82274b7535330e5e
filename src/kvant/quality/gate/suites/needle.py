"""needle: a five-digit number in a long text, over depths and lengths, alone or among others."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kvant.quality.gate.client import Client
from kvant.quality.gate.material import SURELY, Ruler, prose
from kvant.quality.gate.settings import Needle as Options
from kvant.quality.gate.suites import right
from kvant.quality.gate.suites.base import Example, Judgement, Pair

KEYS = (
    "Amsterdam", "Bogota", "Cairo", "Dublin", "Edinburgh", "Florence", "Geneva", "Havana", "Istanbul",
    "Jakarta", "Kyoto", "Lisbon", "Madrid", "Nairobi", "Oslo", "Paris", "Quito", "Rome", "Seoul", "Tokyo",
    "Utrecht", "Vienna", "Warsaw", "Zurich",
)  # fmt: skip
STATED = "The magic number of {key} is {number}."
ASKED = "\n\nNow remember what was said about {key}. The magic number of {key} is"
ANSWER = 10
"""Tokens of an answer: a number of five digits and a little more."""
AROUND = 160


@dataclass(frozen=True)
class Task:
    """`length` in tokens, `depth` from 0 (start) to 1, and how many numbers are hidden."""

    length: int
    depth: float
    keys: int
    prompt: str
    needle: str
    number: str


class Needle:
    """Text completion, so that base models can be asked as well."""

    name = "needle"
    fewest = 12
    sizes = "needle.lengths"

    def __init__(self, options: Options) -> None:
        self.options = options

    def tasks(self, rng: random.Random, ruler: Ruler) -> Iterator[Sequence[Task]]:
        o = self.options
        while True:
            found = [
                self._task(rng, ruler, length, depth, keys)
                for _ in range(o.trials)
                for length in o.lengths
                for depth in o.depths
                for keys in o.keys
            ]
            rng.shuffle(found)
            yield found

    def ask(self, client: Client, task: Task) -> str:
        return client.complete(task.prompt, ANSWER, least=SURELY * task.length).text

    def judge(self, pairs: Sequence[Pair], alpha: float) -> Judgement:
        return right.judge(pairs, _right, _example, self.options.loss, alpha, _cell)

    def _task(self, rng: random.Random, ruler: Ruler, length: int, depth: float, keys: int) -> Task:
        names = rng.sample(KEYS, keys)
        numbers = [str(n) for n in rng.sample(range(10_000, 100_000), keys)]
        stated = [STATED.format(key=key, number=n) for key, n in zip(names, numbers, strict=True)]
        asked = ASKED.format(key=names[0])
        text = prose(rng, length * ruler.prose - len(asked) - sum(map(len, stated)))
        places = [(depth, stated[0]), *((rng.random(), one) for one in stated[1:])]
        # From the end, so that the places before stay where they are.
        for place, one in sorted(places, reverse=True):
            text.insert(round(place * len(text)), one)
        return Task(length, depth, keys, "\n\n".join(text) + asked, stated[0], numbers[0])


def _right(task: Task, answer: str) -> bool:
    return answer.replace(",", "").strip().startswith(task.number)


def _cell(task: Task) -> tuple[str, str]:
    return f"{task.depth:.0%}", f"{task.length} × {task.keys}"


def _example(pair: Pair) -> Example:
    task: Task = pair.task
    at = task.prompt.index(task.needle)
    around = task.prompt[max(0, at - AROUND) : at + len(task.needle) + AROUND]
    where = f"{task.length} tokens, depth {task.depth:.0%}, {task.keys} hidden"
    context = f"… {around} …{task.prompt[-AROUND:]}"
    return Example(where, context, pair.baseline, pair.candidate, task.number)
