"""gm and diag: scores stay, keys and queries meet in the middle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kvant.transforms import Rotation
from kvant.transforms.calibrated import KeyTransform, diag, gm

DIM = 32


def cloud(rng: np.random.Generator, tokens: int, mean: float) -> Any:
    """Vectors of very unequal directions, as keys with large channels are."""
    axes = np.linalg.qr(rng.normal(size=(DIM, DIM)))[0]
    return mean + rng.normal(size=(tokens, DIM)) * np.logspace(-1, 1.2, DIM) @ axes


@pytest.fixture
def sides(rng: np.random.Generator) -> tuple[Any, Any]:
    """Keys and queries, (tokens, D)."""
    return cloud(rng, 4000, 5.0), cloud(rng, 4000, 0.5)


def made(kind: Any, keys: Any, queries: Any) -> KeyTransform:
    covariance, asked = np.cov(keys.T, bias=True), queries.T @ queries / len(queries)
    matrix = kind(covariance, asked, Rotation(3, DIM).signs(0, 0, "key"))
    return KeyTransform(keys.mean(0)[None].astype(np.float32), matrix[None])


@pytest.mark.parametrize("kind", [gm, diag])
def test_scores_are_those_of_the_centred_keys(kind: Any, sides: tuple[Any, Any]) -> None:
    keys, queries = sides
    one = made(kind, keys, queries)
    stored = one.stored(keys[:, None])[:, 0]
    asked = one.queries(queries[:, None])[:, 0]
    expected = queries[:50] @ (keys - one.mean[0]).T
    np.testing.assert_allclose(asked[:50] @ stored.T, expected, atol=2e-3 * np.abs(expected).max())


def test_gm_makes_keys_vary_where_queries_ask(sides: tuple[Any, Any]) -> None:
    keys, queries = sides
    one = made(gm, keys, queries)
    stored = one.stored(keys[:, None])[:, 0]
    asked = one.queries(queries[:, None])[:, 0]
    varies, asks = np.cov(stored.T), asked.T @ asked / len(asked)
    assert np.linalg.norm(varies - asks) < 0.1 * np.linalg.norm(varies)


@pytest.mark.parametrize("kind", [gm, diag])
def test_the_noise_of_a_quantiser_costs_scores_less(kind: Any, sides: tuple[Any, Any]) -> None:
    """White noise on stored keys, at a share of their norm: what a codebook with one scale adds."""
    keys, queries = sides
    one = made(kind, keys, queries)
    noise = np.random.default_rng(0).normal(size=keys.shape)

    def error(stored: Any, asked: Any) -> float:
        size = np.sqrt((stored**2).sum(1, keepdims=True) / DIM)
        return float(np.mean(np.einsum("td,td->t", asked, 0.1 * size * noise) ** 2))

    plain = error(keys, queries)
    assert error(one.stored(keys[:, None])[:, 0], one.queries(queries[:, None])[:, 0]) < 0.5 * plain


@pytest.mark.parametrize("kind", [gm, diag])
def test_heads_that_never_vary_are_still_inverted(kind: Any) -> None:
    zero = np.zeros((DIM, DIM))
    matrix = kind(zero, zero, Rotation(0, DIM).signs(0, 0, "key"))
    assert np.linalg.cond(matrix) < 10
