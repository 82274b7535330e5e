"""The grids of other projects, from their definitions; and that every peer runs on a model."""

from __future__ import annotations

import pytest
import torch

from kvant.quality.simulated.peers import PEERS
from kvant.quality.simulated.peers.grids import fp8, minmax, q4_0, q8_0
from kvant.quality.simulated.peers.kivi import per_channel


@pytest.fixture
def x() -> torch.Tensor:
    return torch.randn((50, 64), generator=torch.Generator().manual_seed(3))


def test_fp8_saturates_and_keeps_its_own_numbers() -> None:
    own = torch.tensor([0.0, 1.0, -1.125, 448.0, 2.0**-9])
    assert torch.equal(fp8(own), own)
    assert fp8(torch.tensor([1000.0, -1e9])).tolist() == [448.0, -448.0]


def test_q8_0_errs_by_half_a_step(x: torch.Tensor) -> None:
    step = x.unflatten(-1, (-1, 32)).abs().amax(-1, keepdim=True) / 127
    error = (q8_0(x) - x).unflatten(-1, (-1, 32)).abs()
    assert (error <= step * 0.56).all()  # half a step, and the rounding of the scale over 127 steps


def test_q4_0_puts_the_largest_value_of_a_block_at_minus_eight(x: torch.Tensor) -> None:
    blocks, read = x.unflatten(-1, (-1, 32)), q4_0(x).unflatten(-1, (-1, 32))
    where = blocks.abs().argmax(-1, keepdim=True)
    torch.testing.assert_close(read.gather(-1, where), blocks.gather(-1, where), rtol=1e-3, atol=0)
    assert len(read[0, 0].unique()) <= 16
    assert not q4_0(torch.zeros(1, 32)).any()


@pytest.mark.parametrize("bits", [2, 4])
def test_minmax_reaches_both_ends(bits: int, x: torch.Tensor) -> None:
    read = minmax(x, bits)
    torch.testing.assert_close(read.amin(-1), x.amin(-1), rtol=2e-3, atol=2e-3)
    torch.testing.assert_close(read.amax(-1), x.amax(-1), rtol=2e-3, atol=1e-2)
    assert all(len(row.unique()) <= 1 << bits for row in read)
    constant = torch.full((1, 8), -3.0)
    torch.testing.assert_close(minmax(constant, bits), constant)


def test_kivi_groups_keys_along_tokens(x: torch.Tensor) -> None:
    """One huge channel must not touch the others: that is what per-channel is for."""
    key = x[None, :, :16].clone()
    key[..., 3] += 100
    read = per_channel(key, 4)
    quiet = [d for d in range(16) if d != 3]
    torch.testing.assert_close(read[..., quiet], per_channel(x[None, :, :16], 4)[..., quiet])
    assert (read[:, :32, 3] - key[:, :32, 3]).abs().max() < 0.3  # half a step of 16 over 5 s.d., and fp16


def test_every_peer_runs_and_wider_is_closer(simulator, ids) -> None:
    from kvant.quality.score import compare
    from kvant.quality.simulated.moments import measure

    moments = measure(simulator, ids)
    control = simulator.states(ids)
    kl = {}
    for name, build in PEERS.items():
        states = simulator.states(ids, build(name, simulator.shape, moments))
        kl[name] = compare(control, states, ids, simulator.logits, 32).summary()["kl"]
    for closer, further in (
        ("q8_0", "fp8"),
        ("fp8", "q4_0-rotated"),
        ("int8-rotated", "int4-rotated"),
        ("turboquant4", "founding"),  # the residual costs more than it saves
        ("turboquant4", "turboquant3"),
        ("turboquant3", "turboquant2+1"),
        ("kivi4", "kivi2"),
        ("oscar2", "turboquant2+1"),
    ):
        assert 0 < kl[closer] < kl[further], (closer, further, kl)
