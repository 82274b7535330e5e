"""The search is exact: against every choice there is, on small tables."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from kvant.quality.tune.search import free, one_size, within_bits, within_kl

LADDERS = ((17, 25, 33), (17, 33, 66, 128), (33, 49))
UNIT = 8 / (2 * 64 * 3)


def table(seed: int, layers: int, rungs: int) -> np.ndarray:
    """KL that falls along the ladder, by layers as unlike as they come."""
    rng = np.random.default_rng(seed)
    return np.sort(rng.lognormal(sigma=2, size=(layers, 2, rungs)))[:, :, ::-1]


def everything(kl: np.ndarray, sizes: tuple[int, ...]) -> dict[int, list[tuple[float, list[int]]]]:
    """All choices by total size: KL, and the size of each layer."""
    found: dict[int, list[tuple[float, list[int]]]] = {}
    sides = kl.reshape(-1, len(sizes))
    for rungs in itertools.product(range(len(sizes)), repeat=len(sides)):
        cost = sum(side[rung] for side, rung in zip(sides, rungs, strict=True))
        each = [sizes[key] + sizes[value] for key, value in zip(rungs[::2], rungs[1::2], strict=True)]
        found.setdefault(sum(each), []).append((cost, each))
    return found


def best(choices: dict[int, list[float]]) -> list[tuple[int, float]]:
    """Sizes at which less KL than at any smaller one can be had."""
    found: list[tuple[int, float]] = []
    for size, costs in sorted(choices.items()):
        if costs and (not found or min(costs) < found[-1][1] - 1e-12):
            found.append((size, min(costs)))
    return found


@pytest.mark.parametrize("sizes", LADDERS, ids=str)
def test_free_finds_every_point_of_the_front(sizes: tuple[int, ...]) -> None:
    kl = table(len(sizes), 3, len(sizes))
    expected = best({size: [cost for cost, _ in all_] for size, all_ in everything(kl, sizes).items()})
    front = free(kl, sizes, UNIT)
    assert [point.bits for point in front] == pytest.approx([size * UNIT for size, _ in expected])
    assert [point.kl for point in front] == pytest.approx([cost for _, cost in expected])
    for point in front:
        assert point.kl == pytest.approx(
            sum(kl[n, 0, key] + kl[n, 1, value] for n, (key, value) in enumerate(point.rungs))
        )
        assert point.bits == pytest.approx(UNIT * sum(sizes[r] for pair in point.rungs for r in pair))


@pytest.mark.parametrize("sizes", LADDERS, ids=str)
def test_one_size_keeps_all_pages_alike(sizes: tuple[int, ...]) -> None:
    kl = table(7, 3, len(sizes))
    alike = {
        size: [cost for cost, each in all_ if len(set(each)) == 1]
        for size, all_ in everything(kl, sizes).items()
    }
    front = one_size(kl, sizes, UNIT)
    assert [point.kl for point in front] == pytest.approx([cost for _, cost in best(alike)])
    for point in front:
        assert len({sizes[key] + sizes[value] for key, value in point.rungs}) == 1


def test_a_sensitive_side_gets_the_bits() -> None:
    kl = np.full((4, 2, 1), 1.0) * np.array([1.0, 0.25, 0.06])
    kl[2, 0] *= 100
    (point,) = [
        one for one in free(kl, (17, 25, 33), UNIT) if one.bits == pytest.approx((8 * 17 + 16) * UNIT)
    ]
    assert point.rungs == ((0, 0), (0, 0), (2, 0), (0, 0))


def test_budgets() -> None:
    front = free(table(1, 3, 3), (17, 25, 33), UNIT)
    inner = front[4]
    assert within_bits(front, inner.bits) == inner
    assert within_bits(front, inner.bits + 1e-6) == inner
    assert within_bits(front, 99) == front[-1]
    assert within_kl(front, inner.kl) == inner
    assert within_kl(front, 0) == front[-1]


def test_a_large_model_is_no_trouble() -> None:
    """80 layers, from 2 to 16 bits at head_dim 128."""
    front = free(table(2, 80, 5), (33, 49, 65, 130, 256), 8 / (2 * 128 * 80))
    assert front[0].bits == 2.0625
    assert front[-1].bits == 16
    assert all(a.kl > b.kl and a.bits < b.bits for a, b in itertools.pairwise(front))
