"""Ours or the stock backend, decided by the running configuration.

vLLM resolves the registered name `kvant.engine.selection.Backend` while it builds a model, when its
configuration is known; the module attribute is computed at that moment (PEP 562). Without our
option the answer is vLLM's own class, untouched. With it, everything that could make vLLM serve
16-bit pages behind our name is refused here, before weights load.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvant.cache.spec import CacheSpec
from kvant.engine import versions
from kvant.engine.refusals import check
from kvant.errors import ConfigError

if TYPE_CHECKING:
    from vllm.config import VllmConfig

OPTION = "kvant"
HOW = """--attention-backend CUSTOM --additional-config '{"kvant": {"key": "int8", "value": "int8"}}'"""


STOCK_ONLY = {"CpuMla": "CPU_MLA", "AmxMla": "AMX_MLA"}
"""Backends vLLM's CPU platform picks whatever was asked for: stock, or refused when we were asked for."""


def asked(additional: Any, custom: bool) -> Any:
    """The value of our option; None where Kvant is not asked for.

    Raises ConfigError for half a request: our option without `CUSTOM`, or the other way round.
    """
    wanted = additional.get(OPTION) if isinstance(additional, dict) else None
    if wanted is None and custom:
        raise ConfigError(f"attention backend CUSTOM is Kvant's, but it is not configured; give: {HOW}")
    if wanted is not None and not custom:
        raise ConfigError(
            "additional_config asks for kvant, but the attention backend is not CUSTOM, so vLLM would "
            f"serve a 16-bit cache; give: {HOW}"
        )
    return wanted


def spec_of(config: VllmConfig) -> CacheSpec | None:
    """The cache spec a vLLM configuration asks for; None where it does not ask for Kvant."""
    from vllm.v1.attention.backends.registry import AttentionBackendEnum

    wanted = asked(config.additional_config, config.attention_config.backend is AttentionBackendEnum.CUSTOM)
    if wanted is None:
        return None
    size = config.cache_config.block_size
    spec = CacheSpec.from_json({"block_size": size, **wanted} if isinstance(wanted, dict) else wanted)
    if spec.block_size != size:
        raise ConfigError(
            f"kvant.block_size is {spec.block_size}, but vLLM's --block-size is {size}: "
            "give both the same value, or leave kvant.block_size out"
        )
    return spec


def __getattr__(name: str) -> Any:
    if name not in ("Backend", *STOCK_ONLY):
        raise AttributeError(name)
    from vllm.config import get_current_vllm_config_or_none
    from vllm.utils.import_utils import resolve_obj_by_qualname
    from vllm.v1.attention.backends.registry import AttentionBackendEnum

    config = get_current_vllm_config_or_none()
    spec = spec_of(config) if config is not None else None
    if config is None or spec is None:
        return resolve_obj_by_qualname(AttentionBackendEnum[STOCK_ONLY.get(name, "CPU_ATTN")].value)
    versions.check()
    check(config, spec)
    from kvant.engine.backend import backend_for

    return backend_for(spec)
