"""vLLM's options as read from its source are those that vLLM really has."""

from __future__ import annotations

import dataclasses

import pytest

from kvant.config.engine_options import OWNED
from kvant.engine import options
from kvant.engine.options import check, declared

pytest.importorskip("vllm")

NOT_FIELDS = {"model_tag", "config", "headless", "grpc", "api_server_count"}
"""Options of the command line that are no fields of vLLM's argument classes."""


def test_the_declared_options_are_the_fields_of_the_argument_classes():
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.entrypoints.launchers.cli_args import FrontendArgs

    real = {f.name for cls in (AsyncEngineArgs, FrontendArgs) for f in dataclasses.fields(cls)}
    assert set(declared()) == {name for name in real if not name.startswith("_")}


def test_every_option_that_kvant_owns_exists():
    assert set(OWNED) - set(declared()) == NOT_FIELDS


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("max_num_batch_tokens", 8, "vLLM has no such option; did you mean max_num_batched_tokens?"),
        ("max-num-batched-tokens", 8, "vLLM has no such option; did you mean max_num_batched_tokens?"),
        ("qqqqqqqq", 8, "vLLM has no such option"),
        ("_api_process_count", 8, "vLLM has no such option"),
        ("max_num_batched_tokens", "8", "'8' is text, but vLLM declares int | None"),
        ("max_num_batched_tokens", True, "true is a boolean, but vLLM declares int | None"),
        ("enforce_eager", "yes", "'yes' is text, but vLLM declares bool"),
        ("reasoning_parser", 3, "3 is an integer, but vLLM declares str"),
        ("hf_token", 3, "3 is an integer, but vLLM declares bool | str | None"),
    ],
)
def test_a_wrong_option_is_told(name, value, message):
    ((found, text),) = check({name: value})
    assert found == name
    assert text.startswith(message)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_num_batched_tokens", 8),
        ("max_num_batched_tokens", None),
        ("gpu_memory_utilization", 1),
        ("gpu_memory_utilization", 0.5),
        ("enforce_eager", False),
        ("chat_template", "x"),
        ("hf_overrides", {"a": 1}),
        ("performance_mode", "throughput"),
    ],
)
def test_a_right_option_passes(name, value):
    assert list(check({name: value})) == []


def test_a_vllm_that_declares_no_options_is_named(monkeypatch):
    from kvant.errors import EngineError

    declared.cache_clear()
    monkeypatch.setattr(options, "DECLARED_IN", (("engine/arg_utils.py", ("Gone",)),))
    with pytest.raises(EngineError, match="declares no Gone"):
        declared()
    monkeypatch.setattr(options, "DECLARED_IN", (("engine/gone.py", ("EngineArgs",)),))
    with pytest.raises(EngineError, match=r"gone\.py"):
        declared()
