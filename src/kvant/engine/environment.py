"""Environment variables that vLLM reads at import: our defaults, never over the user's own.

Only `kvant serve` applies them, to its own process, before vllm is imported; the engine's
processes inherit them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from kvant.config import Settings
from kvant.engine.threads import allowed_cores, bind, siblings_from_sysfs

KV_SPACE = "VLLM_CPU_KVCACHE_SPACE"
PLUGINS = "VLLM_PLUGINS"


def defaults(settings: Settings, *, cpu: bool, local_model: bool) -> dict[str, str]:
    """What we would set if the user has not."""
    values = {
        # Forking a process that runs threads deadlocks sooner or later.
        "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
        "VLLM_LOGGING_LEVEL": settings.monitoring.log_level.upper(),
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
    }
    if local_model:
        values |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    if cpu:
        ranks = settings.serving.tensor_parallel
        values["VLLM_CPU_OMP_THREADS_BIND"] = bind(allowed_cores(), ranks, siblings_from_sysfs)
        # oneDNN keeps what it compiles for every number of tokens that a step has had, 1,024 products in
        # all: a service grows by hundreds of MiB. vLLM keeps the last 32 of each weight itself.
        values["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] = "64"
        if eager(settings):
            # vLLM compiles small helpers of the sampler even in eager mode: the first request with
            # log-probabilities or top-k would stall the engine for 20 seconds.
            values["TORCH_COMPILE_DISABLE"] = "1"
    return values


def eager(settings: Settings) -> bool:
    """On CPU, whether models run uncompiled: compiling costs a minute at every start, for unproven gain."""
    return bool(settings.engine.get("enforce_eager", True))


def apply(values: Mapping[str, str]) -> None:
    for name, value in values.items():
        os.environ.setdefault(name, value)
    # Without our plugin an engine would go on running whose server was killed (`kvant.engine.orphans`).
    plugins = os.environ.get(PLUGINS)
    if plugins is not None and "kvant" not in plugins.split(","):
        os.environ[PLUGINS] = ",".join(filter(None, (plugins, "kvant")))


def conflicts(settings: Settings) -> list[str]:
    """Variables of the user that contradict the settings; the settings win, and say so."""
    if os.environ.get(KV_SPACE) and settings.kv_cache.memory_gib is not None:
        stated = os.environ.pop(KV_SPACE)
        return [f"{KV_SPACE}={stated} is ignored: kv_cache.memory_gib is {settings.kv_cache.memory_gib:g}"]
    return []
