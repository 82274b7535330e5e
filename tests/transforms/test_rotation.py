"""The rotation: orthogonal for any head_dim, and a function of its identity alone."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from kvant.transforms import Rotation, mix
from kvant.transforms.rotation import rotate, unrotate

HEAD_DIMS = (16, 48, 64, 80, 96, 112, 128, 192, 256)


@pytest.mark.parametrize("head_dim", HEAD_DIMS)
def test_mix_is_orthogonal_and_its_own_inverse(head_dim: int) -> None:
    matrix = mix(np.eye(head_dim))
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(head_dim), atol=1e-12)
    np.testing.assert_allclose(matrix @ matrix, np.eye(head_dim), atol=1e-12)


@pytest.mark.parametrize("head_dim", HEAD_DIMS)
def test_every_output_sees_every_input(head_dim: int) -> None:
    """A head that is not a power of two is mixed over its blocks too (one-hot energy is spread)."""
    assert (np.abs(mix(np.eye(head_dim))) > 0.01 / np.sqrt(head_dim)).mean() > 0.99


@pytest.mark.parametrize("head_dim", HEAD_DIMS)
def test_rotation_keeps_inner_products(head_dim: int, rng: np.random.Generator) -> None:
    signs = Rotation(7, head_dim).signs(3, 1, "key")
    x, y = rng.standard_normal((2, 10, head_dim)).astype(np.float32)
    np.testing.assert_allclose((rotate(x, signs) * rotate(y, signs)).sum(1), (x * y).sum(1), atol=1e-4)
    np.testing.assert_allclose(unrotate(rotate(x, signs), signs), x, atol=1e-5)


def test_signs_depend_on_every_part_of_the_identity() -> None:
    base = Rotation(1, 64).signs(2, 3, "key")
    others = [Rotation(2, 64).signs(2, 3, "key"), Rotation(1, 64).signs(1, 3, "key"),
              Rotation(1, 64).signs(2, 4, "key"), Rotation(1, 64).signs(2, 3, "value")]  # fmt: skip
    for other in others:
        assert 10 < (base != other).sum() < 54


def test_signs_never_change() -> None:
    """Pages outlive processes and versions: the same identity must give these signs for ever."""
    table = Rotation(0, 128).table(5, range(4), "value")
    assert table.dtype == np.float32
    assert set(np.unique(table)) == {-1.0, 1.0}
    digest = hashlib.sha256(table.astype(np.int8).tobytes()).hexdigest()
    assert digest == "029a62f57d257616647b507ce12757b66121ffac6be2c0bfc918d9fab921dd7e"


def test_heads_of_a_rank_are_a_slice_of_all_heads() -> None:
    both = Rotation(9, 64).table(0, range(4), "key")
    np.testing.assert_array_equal(Rotation(9, 64).table(0, range(2, 4), "key"), both[2:])
