"""The start-up check: is the cache that was configured the cache that runs? If not, refuse to serve.

Goes by what every worker reports of its own tensors (`kvant.engine.report`), not by what was asked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kvant.cache.spec import CacheSpec
from kvant.errors import EngineError

if TYPE_CHECKING:
    from vllm.engine.protocol import EngineClient


@dataclass(frozen=True)
class LayerPlan:
    """How one layer's cache is stored, and why."""

    name: str
    stored: str
    why: str
    bytes_per_token: float
    window: int


@dataclass(frozen=True)
class EngineReport:
    """The cache in use, all ranks together; sizes in bytes."""

    formats: str
    layers: tuple[LayerPlan, ...]
    effective_bits: float
    bytes_per_token: int
    bytes_per_token_bf16: int
    num_blocks: int
    block_size: int
    tokens: int
    """That requests can fill: vLLM keeps one block back."""
    kv_bytes: int
    exact_bytes: int
    """Of the 16-bit copies of sinks and recent windows, beside the pages."""
    ranks: int
    threads: int
    kernel: str
    why_not_better: str
    digest: str

    @property
    def compression(self) -> float:
        return self.bytes_per_token_bf16 / self.bytes_per_token


async def verify_engine(client: EngineClient, spec: CacheSpec | None) -> EngineReport:
    """Compare what runs with `spec` (None: a stock 16-bit cache); `EngineError` names what differs."""
    workers: list[dict[str, Any]] = await client.collective_rpc("kvant_report")
    cache = client.vllm_config.cache_config
    number = cache.num_gpu_blocks
    tokens = getattr(cache, "kv_cache_size_tokens", None) or number * cache.block_size
    return judge(workers, spec, number, cache.block_size, tokens * (number - 1) // number)


def judge(
    workers: list[dict[str, Any]], spec: CacheSpec | None, num_blocks: int, block_size: int, tokens: int
) -> EngineReport:
    """The verdict on the workers' reports; pure, so that every kind of mismatch can be tested."""
    wrong = [
        f"rank {worker['rank']}, layer {layer['name']}: {problem}"
        for worker in workers
        for layer in worker["layers"]
        for problem in _problems(layer, spec)
    ]
    digests = {(n, layer.get("digest")) for w in workers for n, layer in enumerate(w["layers"])}
    if len(digests) > len(workers[0]["layers"]):
        wrong.append("ranks disagree on the identity of their pages")
    if not workers[0]["layers"]:
        wrong.append("the model has no attention layers whose cache could be checked")
    if wrong:
        shown = "; ".join(wrong[:4]) + (f"; and {len(wrong) - 4} more" if len(wrong) > 4 else "")
        raise EngineError(f"the cache that runs is not the one configured, refusing to serve: {shown}")
    own = [layer for worker in workers for layer in worker["layers"] if not layer["shares"]]
    stored = round(sum(_bytes_per_token(layer) for layer in own))
    values = sum(2 * layer["shape"][1] * _head_dim(layer) for layer in own)
    first = workers[0]["layers"][0]
    return EngineReport(
        formats=spec.name if spec else f"{first['dtype']} (stock vLLM)",
        layers=tuple(_plan(layer, spec) for layer in workers[0]["layers"]),
        effective_bits=stored * 8 / values,
        bytes_per_token=stored,
        bytes_per_token_bf16=values * 2,
        num_blocks=num_blocks,
        block_size=block_size,
        tokens=tokens,
        kv_bytes=sum(worker["kv_bytes"] for worker in workers),
        exact_bytes=sum(layer.get("exact_bytes", 0) for worker in workers for layer in worker["layers"]),
        ranks=len(workers),
        threads=workers[0]["threads"],
        kernel=first.get("kernel", "vllm"),
        why_not_better=first.get("why_not_better", ""),
        digest=next((x["digest"] for x in workers[0]["layers"] if spec and not _kept(x, spec)), ""),
    )


def _problems(layer: dict[str, Any], spec: CacheSpec | None) -> list[str]:
    ours = layer["impl"] == "KvantImpl"
    if spec is None:
        return [f"runs {layer['impl']}, but quantisation is off"] if ours else []
    if not ours:
        return [
            f"runs vLLM's {layer['impl']} with a {layer['dtype']} cache instead of packed {spec.name} pages"
        ]
    kept = _kept(layer, spec)
    expected = spec.of_layer(_owner(layer))
    layout = expected.layout(layer["head_dim"], layer["kv_heads"])
    page = layout.bytes_per_token_head * layer["kv_heads"] * layer["block_size"]
    if kept and layer["page_bytes"] != page:  # in a mixed model it lies in a page as large as the packed ones
        page = spec.layout(layer["head_dim"], layer["kv_heads"]).page_bytes
    found = {
        "key format": (layer["key"], expected.key.name),
        "value format": (layer["value"], expected.value.name),
        "element type": (layer["dtype"], "uint8"),
        "bytes per token and head": (layer["shape"][-1], layout.bytes_per_token_head),
        "KV heads": (layer["shape"][1], layer["kv_heads"]),
        "bytes of a page": (layer["page_bytes"], page),
        "tokens per page": (layer["shape"][2], layer["block_size"]),
        "calibration": (layer["identity"]["calibration"], expected.calibration_digest),
        "tokens kept in 16 bits": (layer["exact"], [expected.sinks, expected.window]),
        "rotation": (layer["identity"]["rotate"], expected.rotate),
        "rotation seed": (layer["identity"]["seed"], expected.seed if expected.rotate else 0),
    }
    return [f"{what} is {is_!r}, expected {want!r}" for what, (is_, want) in found.items() if is_ != want]


def _kept(layer: dict[str, Any], spec: CacheSpec) -> bool:
    """Whether the configuration, not the worker, says that the layer's pages stay in 16 bits."""
    return _owner(layer) in spec.skip_layers


def _owner(layer: dict[str, Any]) -> int:
    """Number of the layer whose pages are read; -1 where its name has none."""
    owner = re.search(r"\.(\d+)\.", layer["shares"] or layer["name"])
    return int(owner[1]) if owner else -1


def _bytes_per_token(layer: dict[str, Any]) -> float:
    """As allocated: what vLLM pads a page with counts."""
    return float(layer["page_bytes"] / layer["shape"][2])


def _head_dim(layer: dict[str, Any]) -> int:
    return int(layer["head_dim"] if "head_dim" in layer else layer["shape"][-1] // 2)


def _plan(layer: dict[str, Any], spec: CacheSpec | None) -> LayerPlan:
    if spec is None:
        stored, why = layer["dtype"], "quantisation is off"
    elif _kept(layer, spec):
        stored, why = "bf16", "kept: named in skip_layers"
    else:
        stored, why = f"{layer['key']}/{layer['value']}", "quantised"
    if layer["shares"]:
        why = f"reads the pages of {layer['shares']}"
    return LayerPlan(layer["name"], stored, why, _bytes_per_token(layer), layer.get("window", 0))
