"""How long a token is, as a server of any context counts it."""

from __future__ import annotations

import random

import pytest

from kvant.quality.gate.client import Refused
from kvant.quality.gate.material import SAMPLE, Length, Ruler, fits, passage


def counter(context: int, asked: list[int]) -> Length:
    """Four characters are a token, and no more than `context` of them are taken."""

    def length(text: str) -> int:
        asked.append(len(text))
        if len(text) // 4 >= context:
            raise Refused(f"the prompt has {len(text) // 4} tokens, the context {context}")
        return len(text) // 4

    return length


@pytest.mark.parametrize(("context", "sample"), [(8192, SAMPLE), (1024, SAMPLE // 2), (128, 375)])
def test_a_sample_is_as_long_as_the_context_takes(context: int, sample: int) -> None:
    asked: list[int] = []
    ruler = Ruler.of(counter(context, asked))
    assert ruler.prose == pytest.approx(4, rel=0.02)
    assert ruler.code == pytest.approx(4, rel=0.02)
    assert asked[-1] == sample
    assert len(asked) >= 2 * SAMPLE // sample  # all of it was counted
    assert max(asked) == SAMPLE


def test_a_server_that_takes_nothing_is_an_error() -> None:
    with pytest.raises(Refused, match="the context 16"):
        Ruler.of(counter(16, []))


@pytest.mark.parametrize("room", [96, 416, 1024, 4096])
def test_a_passage_is_held_by_a_narrow_room(room: int) -> None:
    """Words stand for tokens: they vary as much."""

    def length(text: str) -> int:
        return len(text.split())

    ruler = Ruler.of(length)
    for tokens in (32, 10_000):
        found = [length(passage(random.Random(seed), ruler, tokens, room)) for seed in range(50)]
        assert max(found) <= room
        assert sum(found) / len(found) == pytest.approx(min(0.95 * tokens, fits(room)), rel=0.1)
