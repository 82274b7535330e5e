"""Bits: of the codes, of a whole model, and with what stays in 16 bits counted."""

from __future__ import annotations

import pytest

from kvant.cache import CacheSpec
from kvant.quality.bits import effective, stored
from kvant.quality.simulated.peers import PEERS
from kvant.quality.simulated.scheme import Keep, Shape

SHAPE = Shape(layers=4, query_heads=6, kv_heads=2, head_dim=64)


def test_stored_bits_count_scales_and_skipped_layers() -> None:
    spec = {"key": "codebook4", "value": "codebook2"}
    assert stored(CacheSpec.from_json(spec), 4, 64, 2) == 3.25
    assert stored(CacheSpec.from_json(spec | {"skip_layers": [0]}), 4, 64, 2) == (16 + 3 * 3.25) / 4
    wider = spec | {"layers": {"1": {"key": "int8", "value": "int8"}}}
    assert stored(CacheSpec.from_json(wider), 4, 64, 2) == (8.25 + 3 * 3.25) / 4


def test_effective_bits_count_what_stays_in_16_bits() -> None:
    assert effective(4.0, 0, 2048) == 4.0
    assert effective(2.625, 64, 2048) == pytest.approx(2.625 + 0.418, abs=1e-3)
    assert effective(4.0, 4 + 64, 68) == 16.0
    assert effective(4.0, 1000, 68) == 16.0


def test_an_unfinished_block_holds_half_of_its_tokens_on_average() -> None:
    import torch

    positions = torch.arange(128, 256)
    kept = Keep(block=128).mask(positions, torch.arange(256)) & (torch.arange(256) <= positions[:, None])
    assert kept.sum(1).double().mean() == Keep(block=128).tokens == 64.5


@pytest.mark.parametrize(
    ("peer", "bits"),
    {
        "fp8": 8.0, "q8_0": 8.5, "q4_0-rotated": 4.5, "int8-rotated": 8.25, "int4-rotated": 4.25,
        "kivi4": 5.0, "kivi2": 3.0, "turboquant4": 4.25, "turboquant3": 3.25, "turboquant2+1": 3.375,
        "founding": 4.375,
    }.items(),
)  # fmt: skip
def test_bits_of_the_peers(peer: str, bits: float) -> None:
    assert PEERS[peer](peer, SHAPE, []).bits == bits
