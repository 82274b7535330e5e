"""Memory: both servers get what bf16 needs, and what does not fit is left out with the reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvant.bench.serve import fit, model
from kvant.bench.serve.cases import Case
from kvant.bench.serve.model import Model
from kvant.errors import ModelError

SMOLLM2 = Model(Path("smollm2"), 8192, 49152, 46_080, 270 << 20)


def test_memory_holds_all_streams_in_bf16():
    assert fit.memory_of(Case(7500, 8, 100), SMOLLM2) == 3  # 61,568 tokens with full blocks, 2.7 GiB
    assert fit.memory_of(Case(128, 8, 64), SMOLLM2) == 1
    assert fit.memory_of(Case(7500, 24, 512, memory=1), SMOLLM2) == 1


def test_cases_share_servers_but_for_the_fixed_memory():
    small, large, fixed = Case(128, 16, 64), Case(7500, 8, 100), Case(7500, 24, 512, memory=1)
    found, left_out = fit.groups((small, fixed, large), SMOLLM2, 2, 20 << 30)
    assert left_out == []
    assert [(g.cases, g.memory, g.max_model_len, g.max_num_seqs) for g in found] == [
        ((small, large), 3, 7600, 16),
        ((fixed,), 1, 8012, 24),
    ]


def test_what_does_not_fit_is_left_out_with_the_reason():
    long, large, small = Case(8192, 1, 64), Case(7500, 16, 120), Case(128, 1, 64)
    found, left_out = fit.groups((long, large, small), SMOLLM2, 2, 8 << 30)
    assert [g.cases for g in found] == [(small,)]
    assert left_out == [
        (long, "8,256 tokens of prompt and answer, but the model ends at 8,192"),
        (
            large,
            "2 servers with 6 GiB of KV memory each need 17.5 GiB, but 8.0 GiB of RAM are available",
        ),
    ]


def test_available_memory_is_a_size():
    assert 1 << 20 < fit.available_bytes() < 1 << 60


def test_a_model_folder_is_measured(tmp_path):
    config = {
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "hidden_size": 576,
        "num_hidden_layers": 30,
        "max_position_embeddings": 8192,
        "vocab_size": 49152,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.safetensors").write_bytes(b"12345")
    assert model.look(str(tmp_path)) == Model(tmp_path, 8192, 49152, 23_040, 5)
    del config["vocab_size"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match=r"config.json has no 'vocab_size'"):
        model.look(str(tmp_path))


def test_a_hub_id_is_refused():
    with pytest.raises(ModelError, match="'owner/name' is a hub id"):
        model.look("owner/name")
