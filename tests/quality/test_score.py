"""KL, agreement and perplexity from hidden states, against their definitions."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch

from kvant.errors import ConfigError
from kvant.quality.fidelity.settings import Settings
from kvant.quality.score import Scores, compare, standard_error


def test_scores_are_the_definitions() -> None:
    make = torch.Generator().manual_seed(6)
    control, states = (torch.randn((40, 8), generator=make) for _ in range(2))
    head = torch.randn((30, 8), generator=make)
    ids = torch.randint(30, (40,), generator=make).tolist()
    found = compare(control, states, ids, lambda x: x @ head.T, 10)
    p, q = (torch.softmax((x @ head.T).double(), -1).numpy() for x in (control, states))
    for n, i in enumerate(range(10, 39)):
        assert found.kl[n] == pytest.approx((p[i] * np.log(p[i] / q[i])).sum(), rel=1e-5)
        assert found.same[n] == (p[i].argmax() == q[i].argmax())
        assert found.loss[n] == pytest.approx(np.log(p[i][ids[i + 1]] / q[i][ids[i + 1]]), rel=1e-5)
    summary = found.since(12).summary()
    assert summary["n"] == 27
    ratio = np.exp(np.mean([-np.log(q[i][ids[i + 1]]) + np.log(p[i][ids[i + 1]]) for i in range(12, 39)]))
    assert summary["dppl"] == pytest.approx(ratio - 1)


def test_the_standard_error_knows_that_neighbours_are_alike() -> None:
    """Runs of 25 equal numbers carry a 25th of the information; independent ones all of it."""
    rng = np.random.default_rng(7)
    apart = rng.standard_normal(10_000)
    assert standard_error(apart) == pytest.approx(0.01, rel=0.3)
    assert standard_error(np.repeat(rng.standard_normal(400), 25)) == pytest.approx(0.05, rel=0.3)


def test_buckets_of_positions_cover_all_of_them_once() -> None:
    kl = np.arange(2047.0)
    found = Scores(0, kl, kl, kl).by_position()
    assert len(found) == 8
    assert (found[0]["first"], found[-1]["last"]) == (0, 2046)
    assert all(a["last"] + 1 == b["first"] for a, b in pairwise(found))
    assert [b["kl"] for b in found] == [(b["first"] + b["last"]) / 2 for b in found]
    even = Scores(0, kl, kl % 2, kl).by_position(4, even=True)
    assert [(b["first"], b["last"]) for b in even] == [(0, 511), (512, 1023), (1024, 1534), (1535, 2046)]
    assert [b["top1"] for b in even[:2]] == [0.5] * 2


@pytest.mark.parametrize(("tokens", "skip"), [(2048, 2040), (16, 0), (100, -1)])
def test_too_few_scored_positions_are_refused(tokens: int, skip: int) -> None:
    with pytest.raises(ConfigError, match=f"--tokens {tokens} --skip {skip}: 16 positions"):
        Settings(tokens, skip, "bfloat16", False, "0")


def test_more_tokens_than_the_model_has_positions_are_refused() -> None:
    settings = Settings(4096, 0, "bfloat16", False, "0")
    settings.check("m", None)
    with pytest.raises(ConfigError, match="--tokens 4096: m has 4096 positions"):
        settings.check("m", 4096)
