"""Pairs, prompts and growth: the arithmetic between texts and a row."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from kvant.errors import ConfigError
from kvant.quality.fidelity.row import Row, made
from kvant.quality.fidelity.texts import Text
from kvant.quality.generation import prompts
from kvant.quality.generation.decoding import Writing, decodings
from kvant.quality.generation.figures import of, paired, parted, stopped
from kvant.quality.generation.growth import growth
from kvant.quality.score import Scores

FACTS = {
    "model": "m", "preset": "p", "text": "t", "path": "engine", "bits": 4.0, "effective_bits": 4.0,
    "sinks": 0, "window": 0,
}  # fmt: skip


def test_differences_are_paired_and_seeds_of_a_prompt_are_one_observation() -> None:
    control = [[0.1, 0.3], [0.5, 0.7], [0.8, 0.8]]
    here = [[0.2, 0.4], [0.6, 0.8], [0.9, 0.9]]
    found = paired(here, control)
    assert (found.mean, found.delta) == (pytest.approx(0.6333, abs=1e-4), pytest.approx(0.1))
    assert found.se == pytest.approx(0, abs=1e-9), "what differs between prompts is in no standard error"
    apart = paired([[1.0], [0.0]], [[0.0], [0.0]])
    assert (apart.delta, apart.se) == (0.5, pytest.approx(np.std([1, 0], ddof=1) / 2**0.5))


def test_where_a_text_ends_and_where_it_parts() -> None:
    assert stopped([5, 6, 0, 7], frozenset({0, 1})) == 0.5
    assert stopped([5, 6], frozenset({0})) == 1
    assert (parted([1, 2, 3], [1, 2, 4]), parted([1, 2], [1, 2])) == (2, 2)


def test_a_text_that_gives_in_differs_in_every_figure_it_should() -> None:
    sound = of("A fox crossed the river, looked back once, and was gone among the birches.", "Once", 1.0)
    worse = of("A fox crossed \ufffd " + "茶 了 " * 20, "Once", 0.3)
    assert {name for name in sound if sound[name] != worse[name]} == {*sound}
    assert worse["loop_start"] < 0.2 < 0.8 < worse["looping"]


def test_every_prompt_is_asked_with_every_seed_in_a_fixed_order() -> None:
    writing = Writing({"a": [1], "b": [2, 3]}, decodings(0.8, 2), 10)
    assert writing.requests() == [
        ("a", "greedy", 0, 0.0), ("b", "greedy", 0, 0.0),
        ("a", "sampled", 1, 0.8), ("b", "sampled", 1, 0.8),
        ("a", "sampled", 2, 0.8), ("b", "sampled", 2, 0.8),
    ]  # fmt: skip


def test_shipped_prompts_are_of_three_kinds_and_a_long_one_is_refused() -> None:
    names = [prompt.name for prompt in prompts.shipped()]
    assert [name.split("-")[0] for name in names] == ["english"] * 4 + ["chinese"] * 4 + ["code"] * 4

    def tokenizer(text: str, **_: object) -> object:
        return type("Batch", (), {"input_ids": list(text.encode())})

    with pytest.raises(ConfigError, match="prompt p: 40 tokens of this model; 1 to 32 are possible"):
        prompts.tokens([Text("p", "x" * 40)], tokenizer, 64)


def _row(kl: np.ndarray) -> Row:
    return made(Scores(0, kl, np.ones_like(kl), kl), len(kl) // 2, True, True, **FACTS)


def test_growth_is_the_last_quarter_less_the_second_over_texts() -> None:
    steps = np.repeat([0.0, 1.0, 2.0, 4.0], 256)
    found = growth([_row(steps), _row(3 * steps)])
    assert (found.early, found.late, found.growth) == (
        pytest.approx(2, rel=0.02), pytest.approx(8, rel=0.02), pytest.approx(6, rel=0.02)
    )  # fmt: skip
    assert found.growth_se == pytest.approx(np.std([3, 9], ddof=1) / 2**0.5, rel=0.02)
    assert (found.n, len(found.buckets)) == (2, 8)
    assert found.buckets[-1]["kl_se"] == pytest.approx(np.std([4, 12], ddof=1) / 2**0.5)
    widths = [b["last"] - b["first"] for b in found.buckets]
    assert max(widths) - min(widths) <= 1
    assert all(a["last"] + 1 == b["first"] for a, b in pairwise(found.buckets))
    flat = growth([_row(np.ones(1024)), _row(np.ones(1024))])
    assert (flat.growth, flat.growth_se) == (0, 0)
