"""Reported failures of kinds state-identity and transfer-persistence.

H5-21, about calibration artefacts, is in test_calibration_artefacts.py. Pages never leave the engine:
whatever would store, offload or send them is refused at start, because raw pages do not carry their identity.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvant.engine import selection
from kvant.errors import ConfigError, EngineError
from kvant.transforms import Rotation
from tests.engine.run import generate, prompt
from tests.engines import MakeEngine, Models

CB4 = {"key": "codebook4", "value": "codebook4"}


def resolve(folder: Path, attribute: str = "Backend", **options: Any) -> Any:
    """What vLLM would get for our registered name under a real engine configuration."""
    from vllm.config import set_current_vllm_config
    from vllm.engine.arg_utils import EngineArgs

    arguments = {"block_size": 32, "max_model_len": 2048, "skip_tokenizer_init": True, **options}
    config = EngineArgs(model=str(folder), **arguments).create_engine_config()
    with set_current_vllm_config(config):
        return getattr(selection, attribute)


OURS = {"attention_backend": "CUSTOM", "additional_config": {"kvant": CB4}}


@pytest.mark.parametrize(
    "option",
    [
        {"kv_transfer_config": {"kv_connector": "ExampleConnector", "kv_role": "kv_both"}},
        {"kv_offloading_size": 1.0},
    ],
    ids=["connector", "offloading"],
)
def test_h5_25_h5_26_pages_are_never_stored_or_sent(models: Models, option: dict[str, Any]) -> None:
    with pytest.raises(EngineError, match="kv_transfer_config"):
        resolve(models("llama"), **OURS, **option)


def test_h5_23_the_seed_depends_on_the_owner_of_the_pages(engine: MakeEngine) -> None:
    """Every layer writes and reads with the rotation of the layer that owns its cache."""
    from vllm.model_executor.layers.attention import Attention

    llm = engine({**CB4, "seed": 9})
    generate(llm, [prompt(40, 1)], 1)
    (impls,) = llm.apply_model(lambda model: [m.impl for m in model.modules() if isinstance(m, Attention)])
    for index, impl in enumerate(impls):
        key_signs, value_signs = impl.paged._signs
        assert impl.owner == index
        assert (key_signs == Rotation(9, 64).table(index, range(2), "key")).all()
        assert (value_signs == Rotation(9, 64).table(index, range(2), "value")).all()


def test_half_a_request_is_refused(models: Models) -> None:
    with pytest.raises(ConfigError, match="CUSTOM is Kvant's, but it is not configured"):
        resolve(models("llama"), attention_backend="CUSTOM")
    with pytest.raises(ConfigError, match="the attention backend is not CUSTOM"):
        resolve(models("llama"), additional_config={"kvant": CB4})
    with pytest.raises(ConfigError, match=r"kvant\.block_size is 16, but vLLM's --block-size is 32"):
        resolve(
            models("llama"),
            attention_backend="CUSTOM",
            additional_config={"kvant": {**CB4, "block_size": 16}},
        )


def test_a_second_quantisation_is_refused(models: Models) -> None:
    with pytest.raises(EngineError, match="kv_cache_dtype 'fp8' would quantise a second time"):
        resolve(models("llama"), kv_cache_dtype="fp8", **OURS)


def test_layers_that_do_not_exist_cannot_be_skipped(models: Models) -> None:
    with pytest.raises(EngineError, match="skip_layers names layer 4, but the model has layers 0 to 3"):
        resolve(
            models("llama"),
            attention_backend="CUSTOM",
            additional_config={"kvant": {**CB4, "skip_layers": [4]}},
        )


def test_without_our_option_the_answer_is_vllms_own_class(models: Models) -> None:
    from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackend

    assert resolve(models("llama")) is CPUAttentionBackend
