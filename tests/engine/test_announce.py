"""What vLLM's log says of the cache is what the tensors are; that it is said, test_parallel.py shows."""

from __future__ import annotations

import pytest

from kvant.engine.announce import line
from kvant.kernels import select
from tests.engines import MakeEngine


@pytest.mark.parametrize(
    ("family", "skip", "expected"),
    [
        ("llama", [], "4 of 4 layers, 1056 bytes per token (1.94x less than bf16)"),
        # The kept layer's page holds fewer tokens in as many bytes as the others'.
        ("gemma3", [0], "5 of 6 layers, 1848 bytes per token (1.66x less than bf16)"),
    ],
)
def test_the_line_tells_what_the_tensors_are(
    engine: MakeEngine, family: str, skip: list[int], expected: str
) -> None:
    from kvant.engine.impl import layers_of

    llm = engine({"key": "int8", "value": "int8", "skip_layers": skip}, family)
    worker = llm.llm_engine.model_executor.driver_worker.worker
    layers = layers_of(worker.vllm_config.compilation_config.static_forward_context)
    said = line([layer.impl for layer in layers.values()], len(layers))
    assert said == f"kvant: key int8, value int8, {expected}, kernel {select()[0].name}"
    (report,) = llm.collective_rpc("kvant_report")
    stored = sum(layer["page_bytes"] / layer["shape"][2] for layer in report["layers"])
    assert f" {stored:.0f} bytes per token" in said
