"""code: completions that are run. Half continue a pattern after long source, half need a value from far up.

`pattern`: functions of one family are defined, and the next one's body is asked for; it is called on
numbers. `retrieve`: somewhere in a long repository a function returns a number; `assert f() ==` is asked for.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kvant.quality.gate import sandbox
from kvant.quality.gate.client import Client
from kvant.quality.gate.material import Ruler, code
from kvant.quality.gate.settings import Code as Options
from kvant.quality.gate.suites import right
from kvant.quality.gate.suites.base import Example, Judgement, Pair
from kvant.quality.gate.suites.lexicon import THINGS

FAMILIES = {"plus": "+", "minus": "-", "times": "*"}
ANSWER = 12
SHOTS = 4
DECOYS = 1
"""Among four functions SmolLM2 finds half in 16 bits."""
TAIL = 400


@dataclass(frozen=True)
class Task:
    """`before` the completion and `after` it make the program that is run, without the long source."""

    kind: str
    prompt: str
    before: str
    after: str
    expected: str


class Code:
    name = "code"
    fewest = 12
    sizes = "code.tokens"

    def __init__(self, options: Options) -> None:
        self.options = options

    def tasks(self, rng: random.Random, ruler: Ruler) -> Iterator[Sequence[Task]]:
        o = self.options
        make = (_pattern, _retrieve)
        while True:
            yield [make[n % 2](rng, o.tokens * ruler.code) for n in range(o.tasks)]

    def ask(self, client: Client, task: Task) -> str:
        return client.complete(task.prompt, ANSWER, stop=["\n"]).text.split("\n")[0]

    def judge(self, pairs: Sequence[Pair], alpha: float) -> Judgement:
        return right.judge(pairs, self._runs, _example, self.options.loss, alpha)

    def _runs(self, task: Task, answer: str) -> bool:
        retrieved = task.kind == "pattern" or task.expected in answer  # f() == f() would hold as well
        return retrieved and sandbox.passes(f"{task.before}{answer}\n{task.after}", self.options.seconds)


def _pattern(rng: random.Random, characters: float) -> Task:
    name, sign = rng.choice(list(FAMILIES.items()))
    *shown, asked = rng.sample(range(11, 99), SHOTS + 1)
    family = "".join(f"def {name}_{n}(x):\n    return x {sign} {n}\n\n\n" for n in shown)
    head = f"def {name}_{asked}(x):\n    return"
    source = code(rng, characters - len(family))
    after = f"for x in (0, 3, 1000):\n    assert {name}_{asked}(x) == x {sign} {asked}\n"
    return Task("pattern", f"{source}\n\n\n{family}{head}", head, after, f"x {sign} {asked}")


def _retrieve(rng: random.Random, characters: float) -> Task:
    names, numbers = rng.sample(THINGS, DECOYS + 1), rng.sample(range(10_000, 100_000), DECOYS + 1)
    defined = [
        f"\n\n# file: settings/{name}.py\n\ndef {name}_limit():\n    return {number}\n\n\n"
        for name, number in zip(names, numbers, strict=True)
    ]
    lines = code(rng, characters - sum(map(len, defined))).split("\n")
    for one in defined:
        lines.insert(rng.randrange(len(lines) + 1), one)
    asked = f"assert {names[0]}_limit() =="
    source = "\n".join(lines)
    return Task(
        "retrieve",
        f"{source}\n\n\n# file: tests/test_{names[0]}.py\n\n{asked}",
        f"{defined[0]}{asked}",
        "",
        str(numbers[0]),
    )


def _example(pair: Pair) -> Example:
    task: Task = pair.task
    return Example(task.kind, "…" + task.prompt[-TAIL:], pair.baseline, pair.candidate, task.expected)
