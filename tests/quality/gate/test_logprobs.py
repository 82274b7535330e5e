"""KL from the most likely tokens: never above that of the whole vocabulary, and close to it."""

from __future__ import annotations

import math

import numpy as np

from kvant.quality.gate.client import Answer
from kvant.quality.gate.logprobs import divergence
from kvant.quality.gate.suites.golden import compare


def _top(logits: np.ndarray, n: int) -> dict[int, float]:
    logprobs = logits - np.log(np.exp(logits).sum())
    return {int(token): float(logprobs[token]) for token in np.argsort(-logprobs)[:n]}


def test_it_is_a_close_lower_bound(rng: np.random.Generator) -> None:
    for noise in (0.01, 0.1, 1.0):
        p = rng.standard_normal(500) * 4
        q = p + noise * rng.standard_normal(500)
        one, other = (x - np.log(np.exp(x).sum()) for x in (p, q))
        whole = float((np.exp(one) * (one - other)).sum())
        seen = divergence(_top(p, 20), _top(q, 20))
        assert 0.5 * whole < seen <= whole * (1 + 1e-9)
        assert divergence(_top(p, 20), _top(p, 20)) == 0


def test_disjoint_lists_are_far_apart_in_neither_case_infinite() -> None:
    assert 10 < divergence({1: -0.0001, 2: -9.2}, {3: -0.0001, 4: -9.2, 1: -13.0}) < 20


def test_answers_are_compared_as_far_as_both_read_the_same() -> None:
    tie = {"a": -0.7, "b": -0.8}
    before = Answer("xa", ("x", "a", "y"), ({"x": -0.1, "z": -3.0}, tie, {"y": -0.1}))
    after = Answer("xb", ("x", "b", "q"), ({"x": -0.1, "z": -3.0}, {"b": -0.7, "a": -0.8}, {"q": -0.1}))
    parted = compare(before, after)
    assert parted.at == 1
    assert abs(parted.nats - 0.1) < 1e-9
    assert parted.read == 2
    assert 0 < parted.kl < 0.02  # what follows the parting is not compared
    assert compare(before, before).at is None


def test_an_answer_that_ends_where_the_other_goes_on_parts_there() -> None:
    here = {"a": -0.1, "b": -3.0}
    whole, cut, none = (Answer("a" * n, ("a",) * n, (here,) * n) for n in (8, 2, 0))
    for before, after, at in ((whole, cut, 2), (cut, whole, 2), (whole, none, 0)):
        parted = compare(before, after)
        assert (parted.at, parted.nats, parted.read) == (at, math.inf, at)


def test_what_is_not_listed_is_less_likely_than_what_is() -> None:
    """Lists of one or two tokens that have none in common: neither a tie nor alike."""
    one, other = (
        Answer("a", ("a",), ({"a": -0.1, "c": -4.0},)),
        Answer("b", ("b",), ({"b": -0.1, "d": -4.0},)),
    )
    assert compare(one, other).nats > 2
    assert divergence({"a": -0.1}, {"b": -0.1}) > 1
    assert divergence({"a": -0.7}, {"b": -0.7}) < 1e-3  # all the rest may be the other's
