"""long: sampled texts of a thousand tokens and more. Do they loop, break off, change script, or call tools
that cannot be read? Single errors of a cache are small; here they have time to add up.

Sampled, because small models loop in any precision when they decode greedily, and then have nothing to lose.
Tool calls are decoded greedily, as they are in use, and may repeat themselves.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kvant.quality import generation
from kvant.quality.gate import stats
from kvant.quality.gate.client import Answer, Client
from kvant.quality.gate.material import Ruler
from kvant.quality.gate.settings import Long as Options
from kvant.quality.gate.suites.base import SHOWN, Example, Judgement, Pair
from kvant.quality.gate.verdict import at_most, loses_at_most
from kvant.quality.generation import detectors

OPENINGS = Path(generation.__file__).with_name("prompts.json")
TOOLS = ("get_weather", "send_mail", "find_train", "set_alarm", "convert_money")
PLACES = ("Oslo", "Cairo", "Lima", "Kyoto", "Dublin", "Quito", "Riga", "Hanoi", "Bern", "Accra")
CALLS = 12
"""Calls shown before the model goes on with its own."""

LOOPING, STRAYED, BROKEN, EARLY, UNREAD = 0.5, 0.5, 0.01, 0.25, 0.34
"""From which on a text is defective: share of units in one loop; distance of its scripts from the prompt's;
share of characters that no text has; share of the tokens asked for at which it stopped; share of tool calls
that are not JSON of the shape shown."""
SHOWN_CHARACTERS = 400


@dataclass(frozen=True)
class Task:
    prompt: str
    seed: int
    tools: bool


class Long:
    name = "long"
    fewest = 12
    sizes = "long.tokens"

    def __init__(self, options: Options) -> None:
        self.options = options

    def tasks(self, rng: random.Random, ruler: Ruler) -> Iterator[Sequence[Task]]:
        openings: Mapping[str, Sequence[str]] = json.loads(OPENINGS.read_text(encoding="utf-8"))
        texts = [text for some in openings.values() for text in some]
        while True:
            rng.shuffle(texts)
            found = []
            for n in range(self.options.prompts):
                tools = n % 4 == 3
                prompt = _calls(rng) if tools else texts[n % len(texts)]
                found.append(Task(prompt, rng.randrange(2**31), tools))
            yield found

    def ask(self, client: Client, task: Task) -> Answer:
        o = self.options
        temperature = 0.0 if task.tools else o.temperature
        return client.complete(task.prompt, o.tokens, temperature=temperature, seed=task.seed)

    def judge(self, pairs: Sequence[Pair], alpha: float) -> Judgement:
        o = self.options
        repeated = [tuple(detectors.repeated(one.text) for one in (p.baseline, p.candidate)) for p in pairs]
        defects = [tuple(defect(p.task, one, o.tokens) for one in (p.baseline, p.candidate)) for p in pairs]
        sound = [(not before, not after) for before, after in defects]
        won, lost = stats.discordant(sound)
        n = max(1, len(pairs))
        scores = {
            "repeated": (sum(b for b, _ in repeated) / n, sum(a for _, a in repeated) / n),
            "sound": (sum(b for b, _ in sound) / n, sum(a for _, a in sound) / n),
        }
        checks = [
            at_most(
                "repetition grows",
                stats.mean([after - before for before, after in repeated], alpha, -1.0, 1.0),
                o.repetition,
                f"repeated 4-grams of {len(pairs)} texts, paired",
            ),
            loses_at_most(
                "sound texts gained",
                stats.gain(sound, alpha),
                o.defects,
                f"exact: {lost} lost, {won} won of {len(pairs)} texts",
                scores["sound"][0],
            ),
        ]
        bad = [(p, why) for p, (_, why) in zip(pairs, defects, strict=True) if why]
        return Judgement(checks, scores, [_example(p, why) for p, why in bad[:SHOWN]])


def defect(task: Task, answer: Answer, tokens: int) -> str:
    """What is wrong with a text; "" for nothing."""
    text = answer.text
    if not text.strip():
        return "wrote nothing"
    if answer.used < EARLY * tokens and not task.tools:
        return f"stopped after {answer.used} of {tokens} tokens"
    if detectors.broken(text) > BROKEN:
        return "broken characters"
    if task.tools:
        unread = unreadable(text)
        return f"{unread:.0%} of its tool calls cannot be read" if unread > UNREAD else ""
    if detectors.looping(text) > LOOPING:
        return f"a loop covers {detectors.looping(text):.0%}"
    strayed = detectors.strayed(text, task.prompt)
    return f"left the script of its prompt by {strayed:.0%}" if strayed > STRAYED else ""


def unreadable(text: str) -> float:
    """Share of the whole lines that are no call as shown; the last line may be cut off."""
    lines = [line for line in text.split("\n")[:-1] if line.strip()]
    return sum(not _is_call(line) for line in lines) / len(lines) if lines else 1.0


def _is_call(line: str) -> bool:
    try:
        found = json.loads(line)
    except ValueError:
        return False
    return isinstance(found, dict) and found.get("name") in TOOLS and isinstance(found.get("arguments"), dict)


def _calls(rng: random.Random) -> str:
    calls = (
        {"name": rng.choice(TOOLS), "arguments": {"place": rng.choice(PLACES), "day": rng.randint(1, 28)}}
        for _ in range(CALLS)
    )
    return "Log of tool calls, one JSON object a line:\n" + "".join(f"{json.dumps(one)}\n" for one in calls)


def _example(pair: Pair, why: str) -> Example:
    task: Task = pair.task
    return Example(
        f"candidate: {why}",
        "…" + task.prompt[-SHOWN_CHARACTERS:],
        "…" + pair.baseline.text[-SHOWN_CHARACTERS:],
        "…" + pair.candidate.text[-SHOWN_CHARACTERS:],
    )
