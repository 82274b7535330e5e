"""Step 2: the bytes and blocks that the service has, against those that `kvant plan` computes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from kvant.config import Settings
from kvant.errors import EngineError, KvantError
from kvant.launch.result import Item, Step, Verdict, verdict
from kvant.launch.service import Service
from kvant.models import resolve
from kvant.plan import contexts, hardware
from kvant.plan.fit import Fit, fit
from kvant.plan.model import of_path
from kvant.plan.precision import BASELINE, Ours, Precision, parse
from kvant.plan.room import GIB, Room
from kvant.telemetry.scrape import Scrape

NAME = "memory"
DEVICE = "xeon-8592"
"""Any device whose memory is not shared out by vLLM: the cache's size is given."""
CPU_GIB = 1.0
"""What `kvant serve` gives the cache on a CPU where nothing is said."""


def run(service: Service, settings: Settings | None, tolerance: float) -> Step:
    """`settings` are what the service was started with."""
    names = ("bytes a token", "blocks")
    try:
        scrape = service.scrape()
        found = _has(scrape)
        if settings is None:
            raise EngineError("a plan needs the configuration: -c FILE")
        planned = _plan(settings, service)
    except KvantError as error:
        return Step(NAME, [Item(name, Verdict.INCONCLUSIVE, str(error)) for name in names])
    ranks = settings.serving.tensor_parallel
    token = planned.allocated * ranks
    override = settings.kv_cache.max_cache_blocks
    items = [
        _compare(names[0], found["bytes"], token, tolerance),
        _compare(names[1], found["blocks"], float(override or planned.num_blocks), tolerance),
    ]
    facts = {"found": found, "planned": {"bytes": token, "blocks": override or planned.num_blocks}}
    return Step(NAME, items, facts)


def _compare(name: str, found: float, planned: float, tolerance: float) -> Item:
    off = found / planned - 1 if planned else float("inf")
    return Item(
        name,
        verdict(abs(off) <= tolerance),
        f"{found:,.0f}, planned {planned:,.0f}: {off:+.2%}",
        f"±{tolerance:.0%}",
    )


def _has(scrape: Scrape) -> Mapping[str, float]:
    token = scrape.total("kvant_cache_bytes_per_token")
    cache = scrape.labels("vllm:cache_config_info")
    try:
        blocks = int(cache["num_gpu_blocks"])
    except (KeyError, ValueError):
        blocks = 0
    if not token or not blocks:
        raise EngineError("/metrics has no kvant_cache_bytes_per_token, or no vllm:cache_config_info")
    return {"bytes": token, "blocks": blocks, "block_size": int(cache["block_size"])}


def _plan(settings: Settings, service: Service) -> Fit:
    """Of such a start; `KvantError` where a plan cannot know it."""
    cache, serving = settings.kv_cache, settings.serving
    folder = resolve(settings.model.path)
    if not isinstance(folder, Path):
        raise EngineError(f"{settings.model.path}: a plan needs the model's folder, not a hub id")
    if cache.memory_gib is None and cache.max_cache_blocks is None and hardware_of(service) == "gpu":
        raise EngineError("kv_cache.memory_gib is null: what vLLM finds free on a GPU is not planned")
    model = of_path(folder)
    room = Room(
        hardware.find(DEVICE, hardware.devices()),
        ranks=serving.tensor_parallel,
        kv_memory=int((cache.memory_gib or CPU_GIB) * GIB),
        block_size=cache.block_size,
    )
    longest = service.longest or serving.max_context or model.max_context
    lengths = contexts.of_flag(str(longest), None)
    return fit(model, precision(settings), lengths, room, serving.max_batch)


def precision(settings: Settings) -> Precision:
    """The cache that this configuration asks for."""
    cache = settings.kv_cache
    if not cache.enable_quant:
        return parse([BASELINE], (), cache.block_size)[0]
    if cache.recipe:
        found = parse([], [Path(cache.recipe)], cache.block_size)[-1]
    elif cache.preset:
        found = parse([cache.preset], (), cache.block_size)[-1]
    else:
        found = Ours("named", cache.to_spec())
    if cache.skip_layers and isinstance(found, Ours):
        found = replace(found, spec=replace(found.spec, skip_layers=cache.skip_layers))
    return found


def hardware_of(service: Service) -> str:
    """`gpu` where CUDA is there for a service of this machine; what runs elsewhere is taken for one."""
    return "cpu" if service.local and not Path("/dev/nvidiactl").exists() else "gpu"


def facts(service: Service) -> dict[str, Any]:
    """Which cache runs: what earlier results must be of, to count."""
    build = service.scrape().labels("kvant_build_info")
    return {name: build.get(name, "") for name in ("version", "formats", "identity", "kernel", "preset")} | {
        "model": service.model
    }
