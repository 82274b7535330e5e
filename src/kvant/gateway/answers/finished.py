"""The signs of one finished answer, and how long answers usually are."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from kvant.gateway.answers import asked, signs
from kvant.gateway.answers.sentinel import readers
from kvant.gateway.answers.shape import Shape
from kvant.gateway.call import Call
from kvant.gateway.roles import Sign

LONGEST = 65_536
"""Characters of an answer that are looked at."""
FEWEST, KEPT = 50, 512
"""Answers of the baseline before a length is usual; newest ones that it is taken from."""
SHORTEST, TIMES = 256, 4
"""A runaway has so many tokens, and so many times the baseline's 95th percentile."""
AT_ONCE = 2
"""Tokens of an empty answer: its end. With more of them it may have reasoned."""


@dataclass(frozen=True)
class Answer:
    """One arm's finished answer to a call."""

    text: str
    finish: str = ""
    tokens: int = 0
    tools: tuple[str, ...] = ()
    """Arguments of its tool calls, JSON text."""
    used: int = 0
    """Tokens of prompt and answer together."""


class Usual:
    """Lengths of the baseline's answers, in tokens."""

    def __init__(self) -> None:
        self._tokens: deque[int] = deque(maxlen=KEPT)

    def add(self, tokens: int) -> None:
        self._tokens.append(tokens)

    def far_below(self, tokens: int) -> bool:
        """Whether an answer is much longer than all but a few; False while too few are known."""
        if len(self._tokens) < FEWEST or tokens < SHORTEST:
            return False
        return tokens > TIMES * sorted(self._tokens)[int(len(self._tokens) * 0.95)]


def found(call: Call, answer: Answer, usual: Usual, watched: bool = False) -> tuple[str, ...]:
    """Names of its signs, of `signs.SIGNS`; none for a sound answer. Linear in the text, which is bounded.

    Of an answer that a sentinel `watched` only what shows at its end is looked for.
    """
    text = answer.text[:LONGEST]
    names = []
    for reader in readers(call.body):
        if watched and not isinstance(reader, Shape):
            continue
        tripped = reader.read(text) is Sign.TRIP
        if isinstance(reader, Shape):
            ended = answer.finish == "stop" and len(answer.text) < LONGEST
            tripped |= ended and not reader.complete
        if tripped:
            names.append(reader.name)
    if answer.finish != "length" and not all(map(asked.is_object, answer.tools)):
        names.append(signs.TOOL_CALL)
    if answer.finish == "length" and usual.far_below(answer.tokens):
        names.append(signs.RUNAWAY)
    if answer.finish == "stop" and answer.tokens <= AT_ONCE and not (text.strip() or answer.tools):
        names.append(signs.EMPTY)
    return tuple(names)
