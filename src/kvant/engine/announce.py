"""One line in vLLM's log that says what its cache is: in a plain vLLM nothing else does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvant.engine.impl import KvantImpl
    from kvant.recipes import Recipe

LOGGER = "vllm.kvant"
"""Below vLLM's own, whose level and format hold for it."""


def announce(context: Mapping[str, Any]) -> None:
    """Log `line`, once in every worker, when the last layer of the model knows its pages."""
    from vllm.logger import init_logger
    from vllm.model_executor.layers.attention import Attention

    from kvant.engine.impl import layers_of

    layers = [layer.impl for layer in layers_of(context).values()]
    if all(hasattr(layer, "paged") for layer in layers):
        total = sum(isinstance(layer, Attention) for layer in context.values())
        init_logger(LOGGER).info_once(line(layers, total), scope="process")


def announce_memory(huge: bool) -> None:
    """Log, once in every worker, what memory the first cache of a layer lies in."""
    from vllm.logger import init_logger

    words = "in huge pages" if huge else "not all in huge pages: it is read slower; `kvant doctor` looks why"
    init_logger(LOGGER).info_once(f"kvant: the KV cache lies {words}", scope="process")


def announce_recipe(recipe: Recipe) -> None:
    """Log, once in every worker, which recipe was loaded and how much of it."""
    from vllm.logger import init_logger

    init_logger(LOGGER).info_once(recipe_line(recipe), scope="process")


def recipe_line(recipe: Recipe) -> str:
    """Its name and digests, and how many layers' transforms were found."""
    made, layers = recipe.facts.calibration, recipe.facts.model.layers
    found = f"transforms of {layers} of {layers} layers, SHA-256 {made.sha256}" if made else "no transforms"
    return f"kvant: recipe {recipe.facts.name} for {recipe.facts.model.name}, digest {recipe.digest}: {found}"


def line(layers: list[KvantImpl], total: int) -> str:
    """Formats, layers, bytes and kernel of one rank; `total` counts attention layers of any kind."""
    spec = layers[0].model_spec
    packed = sum(layer.spec == spec for layer in layers)
    own = [layer for layer in layers if not layer.kv_sharing_target_layer_name]
    stored = sum(layer.bytes_per_token for layer in own)
    plain = sum(2 * 2 * layer.num_kv_heads * layer.head_size for layer in own)
    return (
        f"kvant: key {spec.key.name}, value {spec.value.name}, {packed} of {total} layers, "
        f"{stored:.0f} bytes per token ({plain / stored:.2f}x less than bf16), "
        f"kernel {layers[0].paged.kernel.name}"
    )
