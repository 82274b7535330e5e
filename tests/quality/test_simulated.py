"""The simulated cache: the 16-bit control is the model itself, and values are what the formats say."""

from __future__ import annotations

import pytest
import torch

from kvant.cache import CacheSpec
from kvant.errors import CalibrationError, EngineError
from kvant.formats import KEY_FORMATS, Format
from kvant.quality.score import compare
from kvant.quality.simulated.model import Simulator
from kvant.quality.simulated.scheme import CONTROL, Shape, only
from kvant.quality.simulated.sensitivity import sensitivity
from kvant.quality.simulated.spec import scheme_of, through_pages
from tests import tiny
from tests.kernels.native import partner

FAMILIES = ("llama", "qwen2", "qwen3", "gemma2", "gemma3", "mistral")


def spec(**fields) -> CacheSpec:
    return CacheSpec.from_json(fields)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_control_is_the_model_up_to_16_bit_keys_and_values(family: str, tmp_path, ids) -> None:
    """Against transformers' own eager attention, across sliding windows and soft caps."""
    from transformers import AutoModelForCausalLM

    changes = {} if family in ("llama", "gemma3") else {"num_hidden_layers": 2}
    if family in ("mistral", "gemma2"):
        changes |= {"sliding_window": 64}
    folder = tiny.write(tmp_path, family, **changes)
    ours = Simulator(folder, "float32")
    theirs = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    with torch.inference_mode():
        expected = theirs(input_ids=torch.tensor([ids])).logits[0]
    assert (ours.logits(ours.states(ids)) - expected).abs().mean() < 0.02 * expected.std()


def test_a_16_bit_spec_has_no_distance_to_the_control(simulator: Simulator, ids) -> None:
    states = simulator.states(ids, scheme_of(spec(key="bf16", value="bf16"), simulator.shape))
    found = compare(simulator.states(ids), states, ids, simulator.logits, 0).summary()
    assert (found["kl"], found["kl_p99"], found["top1"], found["dppl"]) == (0, 0, 1, 0)


def test_a_window_as_long_as_the_text_leaves_the_noise_of_rotating_16_bits(simulator, ids) -> None:
    """Whatever the format: rotated bf16 differs from bf16 by rounding alone."""
    control = simulator.states(ids)
    kl = {
        window: compare(
            control,
            simulator.states(
                ids, scheme_of(spec(key="codebook2", value="codebook2", window=window), simulator.shape)
            ),
            ids,
            simulator.logits,
            0,
        ).summary()["kl"]
        for window in (0, 64, len(ids))
    }
    assert kl[len(ids)] < 1e-4 < kl[64] < kl[0]


@pytest.mark.parametrize("key", KEY_FORMATS.values(), ids=str)
def test_what_pages_give_back_is_what_the_numpy_formats_say(key: Format) -> None:
    value = partner(key)
    x = torch.randn((2, 70, 64), generator=torch.Generator().manual_seed(4))
    for fmt, read in zip((key, value), through_pages(key, value)(x, x), strict=True):
        vectors = x.reshape(-1, 64).numpy()
        expected = torch.from_numpy(fmt.decode(fmt.encode(vectors), 64)).view_as(x)
        differing = (read - expected).abs() > 1e-5
        assert differing.double().mean() < 2e-3, fmt  # codes at a decision threshold


def test_one_side_of_one_layer(simulator: Simulator, ids) -> None:
    """Resuming at a layer gives what running all of them gives, and only that side is coarse."""
    scheme = scheme_of(spec(key="codebook2", value="codebook2"), simulator.shape)
    _, inputs = simulator.inputs(ids)
    for side in ("key", "value"):
        one = only(scheme, 2, side)
        assert torch.equal(simulator.resume(ids, one, 2, inputs[2]), simulator.states(ids, one))
    key = torch.randn((2, 8, 64))
    value = torch.randn((2, 8, 64))
    assert torch.equal(one.layer(2).store(key, value)[0], CONTROL.layer(2).store(key, value)[0])


def test_sensitivity_names_every_side_of_every_layer(simulator: Simulator, ids) -> None:
    scheme = scheme_of(spec(key="codebook2", value="codebook4"), simulator.shape)
    rows = list(sensitivity(simulator, {"t": ids[:64]}, scheme, 0))
    assert [(row.layer, row.side) for row in rows] == [(n, s) for n in range(4) for s in ("key", "value")]
    assert all(row.kl > 0 for row in rows)
    assert sum(row.kl for row in rows if row.side == "key") > sum(r.kl for r in rows if r.side == "value")


def test_a_calibration_file_that_changed_is_refused(tmp_path) -> None:
    file = tmp_path / "c.safetensors"
    file.write_bytes(b"other")
    fields = {"key": "int8", "value": "int8", "calibration": str(file), "calibration_digest": "0" * 64}
    with pytest.raises(CalibrationError, match=r"c\.safetensors.*the recipe names"):
        scheme_of(spec(**fields), Shape(1, 1, 1, 64))


def test_states_that_are_not_finite_have_no_fidelity(simulator: Simulator, ids) -> None:
    control = simulator.states(ids)
    broken = control.clone()
    broken[7, 0] = float("nan")
    with pytest.raises(EngineError, match=f"1 of {len(ids)} positions .* the first at 7"):
        compare(control, broken, ids, simulator.logits, 0)
