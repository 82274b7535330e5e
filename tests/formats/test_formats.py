"""Every format in the registry: distortion, round trips, layout, edge cases."""

from __future__ import annotations

import numpy as np
import pytest

from kvant.errors import FormatError, GeometryError
from kvant.formats import KEY_FORMATS, TILE, VALUE_FORMATS, Format, parse, viterbi
from kvant.formats.codebook import TABLES, Codebook
from kvant.formats.trellis import Trellis
from kvant.formats.trellis_tables import STEPS, fit, integer_levels
from tests.formats.bounds import DISTORTION

HEAD_DIMS = (64, 80, 96, 112, 128, 192, 256)
FORMATS = pytest.mark.parametrize("fmt", KEY_FORMATS.values(), ids=list(KEY_FORMATS))


def round_trip(fmt: Format, x: np.ndarray) -> np.ndarray:
    return fmt.decode(fmt.encode(x), x.shape[1])


@FORMATS
@pytest.mark.parametrize("head_dim", HEAD_DIMS)
def test_distortion_within_named_bound(fmt: Format, head_dim: int, rng: np.random.Generator) -> None:
    x = rng.standard_normal((256_000 // head_dim, head_dim)).astype(np.float32)
    error = np.mean((round_trip(fmt, x) - x) ** 2)
    # A uniform grid spans the largest of D values, so it coarsens with D; the bounds are for D = 64.
    spread = np.log(head_dim) / np.log(64) if fmt.name.startswith("int") else 1.0
    assert error < DISTORTION[fmt.name] * spread**2


def test_lloyd_max_distortions_are_reproduced(rng: np.random.Generator) -> None:
    x = rng.standard_normal((20_000, 256)).astype(np.float32)
    for bits, known in ((2, 0.1175), (3, 0.03454), (4, 0.009497)):
        error = np.mean((round_trip(Codebook(bits), x) - x) ** 2)
        assert error == pytest.approx(known, rel=0.02), f"{bits} bits"


def test_codebook_tables_are_lloyd_max_fixed_points() -> None:
    """Each level is the mean of its cell under the normal density, up to the rounding to integers."""
    grid = np.linspace(-8, 8, 400_001)
    density = np.exp(-grid * grid / 2)
    for bits, (positive, step) in TABLES.items():
        levels = Codebook(bits).levels().astype(np.float64)
        cell = np.searchsorted((levels[1:] + levels[:-1]) / 2, grid)
        means = np.bincount(cell, density * grid) / np.bincount(cell, density)
        assert np.abs(means - levels).max() < step, f"{bits} bits: a level is off by more than a step"
        assert max(positive) <= 127


@pytest.mark.parametrize("bits", [2, 3, 4])
def test_trellis_tables_are_fixed_points(bits: int) -> None:
    """Each level is the mean of what it stands for, up to a step of rounding and the noise of the sample."""
    levels = Trellis(bits).levels()
    assert np.array_equal(levels[:128], -levels[128:])
    moved = np.abs(fit(bits, levels[:128], seed=1, rounds=1, vectors=4000) - levels[:128])
    assert np.mean(moved) < STEPS[bits]
    assert np.max(moved) < 6 * STEPS[bits]


def test_trellis_distortions_are_reproduced(rng: np.random.Generator) -> None:
    """Relative to the vector, head size 64; .0811, .0220 and .0062 are known for a trellis like this."""
    x = rng.standard_normal((4000, 64)).astype(np.float32)
    for bits, known in ((2, 0.0755), (3, 0.0205), (4, 0.0055)):
        error = np.sum((round_trip(Trellis(bits), x) - x) ** 2) / np.sum(x**2)
        assert error == pytest.approx(known, rel=0.02), f"{bits} bits"


def test_trellis_search_is_near_the_best_path(rng: np.random.Generator) -> None:
    """A ring of 4 elements of 4 bits by trying all 65,536: bytes, and the guess at the turn, lose little."""
    levels = Trellis(4).levels()
    x = rng.standard_normal((40, 4)).astype(np.float32)
    every = np.arange(1 << 16)
    codes = (every[:, None] >> np.array([12, 8, 4, 0]) & 15).astype(np.uint8)
    values = levels[viterbi.states(codes, 4)]
    best = ((x[:, None] - values) ** 2).sum(-1).min(1)
    rows = viterbi.quantise(x, STEPS[4], 4)
    found = viterbi.search(rows, viterbi.distances(integer_levels(4), 4), 4)
    error = ((x - levels[viterbi.states(found, 4)]) ** 2).sum(-1)
    assert np.all(error >= best - 1e-6)
    assert error.sum() < 3 * best.sum()


def test_trellis_of_outliers_stays_a_ring(rng: np.random.Generator) -> None:
    """Costs stop at 255 where no path is near: what is found must still beat storing nothing."""
    x = np.zeros((64, 64), np.float32)
    x[np.arange(64), rng.integers(0, 64, 64)] = 5.0
    x[:, :4] += 3.0
    for bits in (2, 3, 4):
        assert np.all(np.sum((round_trip(Trellis(bits), x) - x) ** 2, 1) < np.sum(x**2, 1))


def test_error_falls_strictly_with_bits(rng: np.random.Generator) -> None:
    x = rng.standard_normal((2000, 128)).astype(np.float32)
    for family in ("codebook2 codebook3 codebook4 int8 bf16", "int4 int8", "int4-asym int8-asym",
                   "codebook2+jl codebook3+jl codebook4+jl", "trellis2 trellis3 trellis4"):  # fmt: skip
        errors = [np.mean((round_trip(parse(name), x) - x) ** 2) for name in family.split()]
        assert errors == sorted(errors, reverse=True)
        assert len(set(errors)) == len(errors)


@FORMATS
@pytest.mark.parametrize("head_dim", HEAD_DIMS)
def test_packing_keeps_every_code(fmt: Format, head_dim: int, rng: np.random.Generator) -> None:
    codes = fmt.encode(rng.standard_normal((TILE, head_dim)).astype(np.float32)).codes
    if fmt.name not in ("bf16", "polar"):
        width = fmt.bits + (1 if "+jl" in fmt.name else 0)
        codes = rng.integers(0, 1 << width, (TILE, head_dim)).astype(np.uint8)
    for side in ("key", "value"):
        if side == "value" and fmt.name not in VALUE_FORMATS:
            continue
        data = fmt.pack(codes, side)
        assert data.dtype == np.uint8
        assert data.size == fmt.code_bytes(head_dim)
        np.testing.assert_array_equal(fmt.unpack(data, head_dim, side), codes)


@pytest.mark.parametrize(
    ("name", "bits"),
    [("int8", 8.25), ("int4", 4.25), ("int8-asym", 8.5), ("int4-asym", 4.5), ("codebook4", 4.25),
     ("codebook3", 3.25), ("codebook2", 2.25), ("codebook2-byte", 2.125), ("codebook3+jl", 4.5),
     ("polar", 3.875), ("trellis4", 4.125), ("trellis3", 3.125), ("trellis2", 2.125), ("bf16", 16)],
)  # fmt: skip
def test_effective_bits_at_head_dim_64(name: str, bits: float) -> None:
    assert parse(name).bits_per_value(64) == bits


def test_padding_of_head_dim_80_is_counted() -> None:
    assert Codebook(3).code_bytes(80) == 8 * 64  # 20 planes: 16 in 6 lines, 4 more in 2
    assert Codebook(3).bits_per_value(80) == pytest.approx(3.4)


@FORMATS
def test_zero_decodes_to_zero(fmt: Format) -> None:
    assert not round_trip(fmt, np.zeros((3, 64), np.float32)).any()


@FORMATS
@pytest.mark.parametrize("scale", [1e-38, 1e-20, 1e-4, 1e4, 1e15])
def test_finite_at_every_magnitude(fmt: Format, scale: float, rng: np.random.Generator) -> None:
    x = (rng.standard_normal((8, 64)) * scale).astype(np.float32)
    assert np.isfinite(round_trip(fmt, x)).all()


@FORMATS
def test_vectors_are_encoded_independently(fmt: Format, rng: np.random.Generator) -> None:
    x = rng.standard_normal((5, 64)).astype(np.float32)
    x[2] *= 1e6
    alone = [fmt.encode(row[None]) for row in x]
    together = fmt.encode(x)
    for n, one in enumerate(alone):
        np.testing.assert_array_equal(together.codes[n], one.codes[0])
        for name, numbers in one.meta.items():
            assert together.meta[name][n] == numbers[0]


def test_jl_residual_is_unbiased_where_the_plain_code_is_not(rng: np.random.Generator) -> None:
    """The slope of estimated against true inner products: 1 with the residual, below 1 without."""
    x = rng.standard_normal((20_000, 64)).astype(np.float32)
    q = rng.standard_normal((20_000, 64)).astype(np.float32) + x  # queries that align with keys
    true = (q * x).sum(1)

    def slope(name: str) -> float:
        estimate = (q * round_trip(parse(name), x)).sum(1)
        return float((estimate * true).sum() / (true * true).sum())

    assert slope("codebook3+jl") == pytest.approx(1.0, abs=0.002)
    assert slope("codebook3") < 0.985


def test_jl_residual_costs_more_than_a_fourth_bit_saves(rng: np.random.Generator) -> None:
    """Its variance is why it is never the default: at the same storage, 4-bit codes are closer."""
    x = rng.standard_normal((4000, 64)).astype(np.float32)
    q = rng.standard_normal((4000, 64)).astype(np.float32)

    def variance(name: str) -> float:
        return float(np.mean((q * (round_trip(parse(name), x) - x)).sum(1) ** 2) / 64)

    assert variance("codebook4") < variance("codebook3+jl") < variance("codebook3")


@pytest.mark.parametrize("head_dim", [8, 72, 100, 576, 0])
def test_other_head_dims_are_refused_by_name(head_dim: int) -> None:
    with pytest.raises(GeometryError, match=f"head_dim {head_dim}"):
        parse("int8").check_head_dim(head_dim)


@pytest.mark.parametrize("name", ["codebook5", "codebook1", "int3", "int16", "codebook 4", "", "fp8"])
def test_widths_beside_the_offered_ones_are_refused(name: str) -> None:
    with pytest.raises(FormatError, match="does not exist"):
        parse(name)


def test_names_get_a_suggestion() -> None:
    with pytest.raises(FormatError, match="did you mean 'codebook4'"):
        parse("codebok4")
    with pytest.raises(FormatError, match="keys only"):
        parse("codebook3+jl", "value")
