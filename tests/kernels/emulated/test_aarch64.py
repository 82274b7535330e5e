"""The paths of aarch64 under user-mode emulation: the tests of tests/kernels on another processor.

A path has the bounds it has everywhere; what differs is where it runs. Emulation says nothing about speed.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import kvant.kernels
from kvant.formats import KEY_FORMATS, VALUE_FORMATS, Format
from kvant.kernels import available
from kvant.kernels.paged import native_layout
from tests.kernels import test_native_attend as attend
from tests.kernels import test_native_encode as encode
from tests.kernels import test_native_exact as exact
from tests.kernels import test_native_exact_tokens as tokens
from tests.kernels.emulated.machine import Machine, build, missing
from tests.kernels.native import FORMATS, HEAD_DIMS, partner

ISAS = pytest.mark.parametrize("isa", ["neon", "generic"])


def forget() -> None:
    """Which processor this is, and layouts made for it."""
    available.cache_clear()
    native_layout.cache_clear()


@pytest.fixture(scope="module")
def driver() -> str:
    if missing():
        pytest.skip(missing())
    return str(build())


@pytest.fixture(scope="module", autouse=True)
def machine(driver: str) -> Iterator[Machine]:
    """`kvant.kernels` runs on the emulated processor while this module's tests do."""
    with Machine(driver) as emulated, pytest.MonkeyPatch.context() as patch:
        patch.setattr(kvant.kernels, "_native", emulated)
        forget()
        yield emulated
    forget()


def some(name: str, few: list[object], many: list[object]) -> pytest.MarkDecorator:
    """`few` in every run, and the rest of `many` among the slow ones."""
    slow = [pytest.param(x, marks=pytest.mark.slow) for x in many if x not in few]
    return pytest.mark.parametrize(name, [*few, *slow])


def test_paths_and_why_not() -> None:
    assert {k.name: k.why_not for k in available()} == {
        **dict.fromkeys(
            ("amx", "avx512", "avx512-vnni", "avx-vnni", "avx2"), "not compiled for this architecture"
        ),
        **dict.fromkeys(("neon", "generic"), ""),
    }


def test_without_dot_products_neon_is_refused(driver: str) -> None:
    """A Cortex-A53 has none: `generic` serves it, and no instruction it lacks is met on the way."""
    with Machine(driver, "cortex-a53") as old, pytest.MonkeyPatch.context() as patch:
        patch.setattr(kvant.kernels, "_native", old)
        forget()
        try:
            assert {k.name: k.why_not for k in available()}["neon"] == "this processor lacks asimddp"
            encode.test_codes_and_vectors_are_numpys(
                "generic", KEY_FORMATS["codebook4"], VALUE_FORMATS["codebook4"], 64
            )
            attend.test_every_head_dim("generic", 64, "int8", np.random.default_rng(1))
        finally:
            forget()


@ISAS
@FORMATS
@some("head_dim", [64, 80, 128], list(HEAD_DIMS))
def test_codes_and_vectors_are_numpys(isa: str, key: Format, value: Format, head_dim: int) -> None:
    encode.test_codes_and_vectors_are_numpys(isa, key, value, head_dim)


@ISAS
@FORMATS
def test_one_token_overwrites_its_slot_and_nothing_else(
    isa: str, key: Format, value: Format, rng: np.random.Generator
) -> None:
    encode.test_one_token_overwrites_its_slot_and_nothing_else(isa, key, value, 80, rng)


@ISAS
@FORMATS
def test_every_format(isa: str, key: Format, value: Format, rng: np.random.Generator) -> None:
    attend.test_every_format(isa, key, value, rng)


@ISAS
@some("head_dim", [80, 128], [*HEAD_DIMS, 16, 512])
@pytest.mark.parametrize("name", ["bf16", "int8", "codebook4", "codebook3+jl"])
def test_every_head_dim(isa: str, head_dim: int, name: str, rng: np.random.Generator) -> None:
    attend.test_every_head_dim(isa, head_dim, name, rng)


@ISAS
@some("group", [1, 7, 12], [1, 3, 5, 6, 7, 8, 12, 14, 16, 24, 28, 71])
def test_every_group_reads_its_own_head(isa: str, group: int, rng: np.random.Generator) -> None:
    attend.test_every_group_reads_its_own_head(isa, group, rng)


@ISAS
@some("window", [5, 100], [1, 5, 16, 100, 128, 500])
def test_windows(isa: str, window: int, rng: np.random.Generator) -> None:
    attend.test_windows(isa, window, 48, rng)


@ISAS
@some("softcap", [30.0], [0.5, 30.0, 50.0])
def test_softcap(isa: str, softcap: float, rng: np.random.Generator) -> None:
    attend.test_softcap(isa, softcap, rng)


@ISAS
@some("size", [3.0], [-100.0, 0.0, 3.0, 40.0])
def test_sinks(isa: str, size: float, rng: np.random.Generator) -> None:
    attend.test_sinks(isa, size, rng)


@ISAS
@some("scale", [30.0], [0.0, 0.125, 3.0, 30.0])
def test_flat_and_peaked_softmax(isa: str, scale: float, rng: np.random.Generator) -> None:
    attend.test_flat_and_peaked_softmax(isa, scale, rng)


@pytest.mark.slow
@ISAS
@pytest.mark.parametrize("name", ["bf16", "codebook3"])
def test_long_contexts_cross_every_border(isa: str, name: str, rng: np.random.Generator) -> None:
    attend.test_long_contexts_cross_every_border(isa, name, rng)


@ISAS
@some("key", ["int8", "codebook3"], list(KEY_FORMATS))
def test_poisoned_free_pages_change_nothing(isa: str, key: str) -> None:
    """Every residue of a partial tile, and garbage beyond each end."""
    exact.test_poisoned_free_pages_change_nothing(isa, KEY_FORMATS[key], partner(KEY_FORMATS[key]))


@ISAS
@some("pair", ["int8 int8"], ["int8 int8", "codebook4+jl codebook3", "bf16 polar"])
def test_a_row_depends_on_nothing_but_itself(isa: str, pair: str, rng: np.random.Generator) -> None:
    """Not on the batch, the chunk it came in, or how its context is split over threads."""
    key, value = pair.split()
    exact.test_mixed_batch_equals_solo(isa, key, value, rng)
    exact.test_verifying_four_tokens_equals_four_decodes(isa, key, value, 1000, 0, rng)
    exact.test_chunks_equal_one_shot(isa, key, value, 90, rng)
    exact.test_splitting_a_context_over_threads_changes_nothing(isa, key, value)


@ISAS
@some("formats", [("codebook4", "codebook2")], [("codebook4", "codebook2"), ("trellis3", "trellis2")])
def test_calibrated_pages_with_16_bit_tiles(
    isa: str, formats: tuple[str, str], rng: np.random.Generator
) -> None:
    """What every calibrated preset is served by."""
    tokens.test_against_the_reference(isa, 4, 64, formats, rng)
    tokens.test_inside_a_sliding_window(isa, rng)


@ISAS
def test_what_cannot_be_served_is_refused_by_name(isa: str, rng: np.random.Generator) -> None:
    encode.test_slot_minus_one_is_skipped_and_a_wild_slot_refused(isa, rng)
