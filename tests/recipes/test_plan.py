"""What is read at which positions."""

from __future__ import annotations

import numpy as np
import pytest

from kvant.errors import CalibrationError
from kvant.recipes.plan import SINKS, TILE, identity, plan

TEXTS = [list(range(1000)), list(range(1000, 3000))]


@pytest.mark.parametrize("length", [256, TILE, 5000, 4 * TILE])
def test_every_position_is_read_about_as_often_as_any_other(length: int) -> None:
    reads = np.zeros(length, int)
    for span in plan(TEXTS, length):
        reads[span.positions[SINKS:]] += 1
    first = np.arange(length) % TILE < SINKS
    assert reads[first].max() == 0
    assert reads[~first].min() >= 1
    assert reads.max() <= 2 * np.median(reads)


def test_all_texts_are_read_and_each_sequence_begins_as_a_text_does() -> None:
    spans = plan(TEXTS, 2048, prefix=[7000])
    assert {int(span.tokens[0]) for span in spans} == {7000}
    read = np.unique(np.concatenate([span.tokens[1:] for span in spans]))
    assert (read == np.arange(3000)).all()


def test_the_identity_is_that_of_model_and_tokens() -> None:
    spans = plan(TEXTS, 2048)
    names = {
        identity("a", spans),
        identity("b", spans),
        identity("a", plan(TEXTS, 2049)),
        identity("a", plan(TEXTS[::-1], 2048)),
    }
    assert len(names) == 4
    assert identity("a", plan(TEXTS, 2048)) == identity("a", spans)


def test_too_little_text_is_refused() -> None:
    with pytest.raises(CalibrationError, match="the texts have 100 tokens; calibration needs 1024"):
        plan([range(100)], 2048)


@pytest.mark.parametrize("tokens", [4_000, 16_384, 60_000])
def test_texts_have_their_share_however_much_there_is(tokens: int) -> None:
    texts = [np.full(tokens // 4, n) for n in range(4)]
    read = np.concatenate([span.tokens for span in plan(texts, 4 * TILE)])
    share = np.bincount(read) / len(read)
    assert share.min() > 0.1, share
