"""Reported failures H5-16, H5-18 and H5-35, as far as measuring fidelity has to see them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from kvant.cache import CacheSpec
from kvant.engine.forced import check
from kvant.errors import EngineError
from kvant.formats import KEY_FORMATS
from kvant.quality.score import compare
from kvant.quality.simulated.attention import attend
from kvant.quality.simulated.model import Simulator
from kvant.quality.simulated.scheme import EXACT, Keep, Layer
from kvant.quality.simulated.spec import scheme_of, through_pages
from kvant.transforms import Calibration, KeyTransform, Rotation
from kvant.transforms.calibrated import file_digest, gm
from tests import tiny
from tests.engine.run import prompt


@pytest.fixture(scope="module")
def biased(tmp_path_factory: pytest.TempPathFactory) -> Simulator:
    """Keys with a few large constant channels, as Qwen2.5 has: a random rotation smears them over all."""
    from transformers import AutoModelForCausalLM

    folder = tiny.write(tmp_path_factory.mktemp("biased"), "qwen2", num_hidden_layers=2)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.k_proj.bias.zero_()[31::32] = 60.0  # slow rotary channels keep their place
    model.save_pretrained(folder)
    return Simulator(folder, "float32")


def calibrated(simulator: Simulator, ids: list[int], file: Path) -> dict[str, Any]:
    """gm from another text than is scored, as fields of a spec."""
    found: dict[int, KeyTransform] = {}

    def observe(layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor) -> None:
        heads, _, dim = k.shape
        keys, queries = k.double().numpy(), q.reshape(heads, -1, dim).double().numpy()
        matrices = [
            gm(np.cov(keys[h].T), queries[h].T @ queries[h], Rotation(0, dim).signs(layer, h, "key"))
            for h in range(heads)
        ]
        found[layer] = KeyTransform(keys.mean(1).astype(np.float32), np.stack(matrices))

    simulator.states(ids, observe=observe)
    Calibration(found, {}).save(file)
    return {"calibration": str(file), "calibration_digest": file_digest(file)}


def test_h5_16_a_collapse_is_seen_and_a_calibrated_transform_mends_it(
    biased: Simulator, tmp_path: Path
) -> None:
    """At the same bits. A recent window does not hide it, though the text comes in one go."""
    ids = prompt(512)
    control = biased.states(ids)
    plain = {"key": "codebook4", "value": "codebook4"}
    near = {"sinks": 4, "window": 64}
    gm_fields = calibrated(biased, prompt(512, seed=9), tmp_path / "gm.safetensors")
    kl = {}
    for name, fields in {"rotated": plain, "near": plain | near, "gm": plain | near | gm_fields}.items():
        states = biased.states(ids, scheme_of(CacheSpec.from_json(fields), biased.shape))
        kl[name] = compare(control, states, ids, biased.logits, 256).summary()["kl"]
    assert kl["rotated"] > 10 * kl["gm"], kl
    assert kl["near"] > 5 * kl["gm"], kl


@pytest.mark.parametrize("logit", [-10.0, 0.0, 5.0])
@pytest.mark.parametrize("name", ["int8", "codebook4", "codebook4-byte"])
def test_h5_18_the_learned_sink_is_in_every_mode(name: str, logit: float) -> None:
    """Left out, the output is larger by 1 + exp(sink) / sum(exp(scores)): far more than a code's error."""
    make = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn((heads, 96, 64), generator=make) for heads in (4, 2, 2))
    sinks = torch.full((4,), logit)
    fmt = KEY_FORMATS[name]
    layer = Layer(through_pages(fmt, fmt), keys=Keep(4, 16), values=Keep(4, 16))
    found, exact = (attend(one, q, k, v, 0.125, sinks=sinks) for one in (layer, EXACT))
    scores = (q @ k.repeat_interleave(2, 0).mT * 0.125).masked_fill(torch.ones(96, 96).triu(1).bool(), -1e9)
    weights = torch.softmax(torch.cat((scores, torch.full((4, 96, 1), logit)), -1), -1)[..., :-1]
    reference = weights @ v.repeat_interleave(2, 0)
    torch.testing.assert_close(exact, reference, atol=2e-2, rtol=2e-2)
    assert (found - reference).norm() < 0.12 * reference.norm()


LAYER = {
    "name": "layers.0", "impl": "KvantImpl", "key": "int8", "value": "int8", "head_dim": 64, "kv_heads": 2,
    "bytes_per_token_head": 132, "exact": [4, 64],
}  # fmt: skip


@pytest.mark.parametrize(
    ("found", "says"),
    [
        ({"impl": "CPUAttentionBackendImpl", "key": None, "value": None}, "layer 1 .* runs CPUAttention"),
        ({"key": "bf16"}, r"layer 1 \(layers.0\) runs KvantImpl, bf16, int8, not int8/int8"),
        ({"bytes_per_token_head": 256}, "layer 1 stores 256 bytes"),
        ({"exact": [0, 0]}, r"layer 1 keeps \[0, 0\] .* not \[4, 64\]"),
    ],
)
def test_h5_35_a_run_in_which_another_cache_ran_is_void(found: dict[str, Any], says: str) -> None:
    """No number without the mode: one layer that silently fell back is enough."""
    spec = CacheSpec.from_json({"key": "int8", "value": "int8", "sinks": 4, "window": 64})
    check({"layers": [LAYER, LAYER]}, spec)
    with pytest.raises(EngineError, match=says):
        check({"layers": [LAYER, LAYER | found]}, spec)
