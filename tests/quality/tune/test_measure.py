"""Measurements as a table, and the verdict that is drawn from scores."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kvant.cache import CacheSpec
from kvant.errors import ConfigError, FormatError
from kvant.quality.score import Scores
from kvant.quality.tune.choice import spec_of, title, uniform
from kvant.quality.tune.ladder import ladder
from kvant.quality.tune.measure import Part, parts, passes, predicted
from kvant.quality.tune.verify import judge

TRELLIS = ladder(["trellis4", "trellis2", "trellis3"], 64)


def test_a_ladder_is_sorted_and_knows_its_bytes() -> None:
    assert TRELLIS.names == ("trellis2", "trellis3", "trellis4")
    assert TRELLIS.bytes == (17, 25, 33)


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["trellis2"], "two or more formats"),
        (["trellis2", "trellis2"], "two or more formats"),
        (["trellis2", "codebook2-byte"], "of different widths"),
        (["bf16", "trellis9"], "'trellis9' does not exist"),
        (["codebook3+jl", "bf16"], "for keys only"),
    ],
)
def test_ladders_that_are_refused(names: list[str], says: str) -> None:
    with pytest.raises((ConfigError, FormatError), match=says):
        ladder(names, 64)


def test_a_layer_costs_its_share_of_what_its_side_costs() -> None:
    found = []
    for text, scale in (("a", 1.0), ("b", 3.0)):
        found += [Part(text, None, "", "bf16", 0.001 * scale, 0)]
        found += [Part(text, n, "", "bf16", floor * scale, 0) for n, floor in enumerate((0.1, 0.0))]
        found += [Part(text, None, "key", name, kl * scale, 0) for name, kl in
                  (("trellis2", 0.8), ("trellis3", 0.1), ("trellis4", 0.02))]  # fmt: skip
        found += [Part(text, None, "value", name, kl * scale, 0) for name, kl in
                  (("trellis2", 0.08), ("trellis3", 0.02), ("trellis4", 0.006))]  # fmt: skip
        found += [Part(text, n, "key", "trellis2", kl * scale, 0) for n, kl in enumerate((0.4, 0.1))]
        found += [Part(text, n, "value", "trellis2", kl * scale, 0) for n, kl in enumerate((0.11, 0.01))]
    table = predicted(found, 2, TRELLIS)
    assert table[:, 0] == pytest.approx(np.outer((0.75, 0.25), (1.598, 0.198, 0.038)))
    assert table[:, 1] == pytest.approx(np.outer((0.5, 0.5), (0.158, 0.038, 0.01)))


def test_the_passes_of_a_model(simulator, ids) -> None:
    rungs = ladder(["codebook2", "codebook3", "bf16"], 64)
    found = list(parts(simulator, "t", ids[:96], CacheSpec(sinks=4), rungs, 16))
    assert len(found) == passes(4, rungs) == 17
    wholes = {(part.side, part.format): part.kl for part in found if part.layer is None}
    assert wholes["key", "codebook2"] > wholes["key", "codebook3"] > 0
    assert ("key", "bf16") not in wholes
    table = predicted(found, 4, rungs)
    assert (table[:, :, 2] == 0).all()
    assert table[:, 0, 0].sum() == pytest.approx(wholes["key", "codebook2"] - wholes["", "bf16"])


def test_a_choice_names_the_layers_that_differ() -> None:
    base = CacheSpec.from_json({"key": "int8", "value": "int8", "sinks": 4, "window": 64})
    spec = spec_of(((1, 0), (1, 0), (2, 1), (1, 0)), base, TRELLIS)
    assert (spec.name, spec.sinks, spec.window) == ("trellis3/trellis2", 4, 64)
    assert [(one.layer, one.key.name, one.value.name) for one in spec.layers] == [(2, "trellis4", "trellis3")]
    names = [title(one, base, TRELLIS) for one in uniform(4, TRELLIS)]
    assert sorted(names) == [
        f"trellis{key}/trellis{value}" for key in (2, 3, 4) for value in range(2, key + 1)
    ]


def scores(kl: np.ndarray) -> dict[str, Scores]:
    return {"t": Scores(0, kl, np.ones_like(kl), np.zeros_like(kl))}


@pytest.mark.parametrize(
    ("factor", "better", "says"),
    [(0.8, True, "20% less"), (1.0001, False, "no better than uniform"), (1.2, False, "WORSE than uniform")],
)
def test_the_verdict_is_plain(factor: float, better: bool, says: str) -> None:
    rng = np.random.default_rng(0)
    kl = rng.lognormal(size=900)
    noise = rng.normal(size=900) * 0.01
    found = judge(("max", 2.625, scores(kl)), ("tuned", 2.6, scores(kl * factor + noise)))
    assert found.better is better
    assert says in str(found)
    assert "bits more" not in str(found)
    assert "0.375 bits more" in str(replace(found, tuned_bits=3.0))
