"""Ours or the stock backend, decided by the running configuration.

vLLM resolves the registered name `kvant.engine.selection.Backend` while it builds a model, when its
configuration is known; the module attribute is computed at that moment (PEP 562). Without our
option the answer is vLLM's own class, untouched. With it, everything that could make vLLM serve
16-bit pages behind our name is refused here, before weights load.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvant import recipes
from kvant.cache.spec import CacheSpec
from kvant.engine import versions
from kvant.engine.announce import announce_recipe
from kvant.engine.refusals import check
from kvant.errors import ConfigError
from kvant.models import manifest

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


def read(wanted: Any) -> tuple[CacheSpec, recipes.Recipe | None]:
    """The spec our option describes, and the recipe it was taken from; `KvantError` says what is wrong."""
    if not isinstance(wanted, dict) or "recipe" not in wanted:
        return CacheSpec.from_json(wanted), None
    folder = wanted["recipe"]
    beside = sorted(wanted.keys() - {"recipe", "block_size"})
    if beside:
        raise ConfigError(
            f"kvant.{beside[0]}: a recipe says this already; give either kvant.recipe or {', '.join(beside)}"
        )
    if not isinstance(folder, str) or not folder:
        raise ConfigError(f"kvant.recipe: {folder!r} is not the folder of a recipe")
    recipe = _loaded(str(Path(folder).expanduser().absolute()))
    pages = {"block_size": wanted["block_size"]} if "block_size" in wanted else {}
    return CacheSpec.from_json(recipe.spec.to_json() | pages), recipe


@cache
def _loaded(folder: str) -> recipes.Recipe:
    # Once in a process: vLLM asks for every layer.
    return recipes.load(folder)


def _check_model(recipe: recipes.Recipe, config: VllmConfig) -> None:
    model = config.model_config
    if not Path(model.model).is_dir():
        raise ConfigError(
            f"kvant.recipe: a recipe is pinned to the files of its model, and {model.model!r} is no folder: "
            "give vLLM the model's folder"
        )
    recipe.check_model(
        _recorded(model.model),
        model.get_total_num_hidden_layers(),
        model.get_total_num_kv_heads(),
        [model.get_head_size()],
    )
    announce_recipe(recipe)


@cache
def _recorded(folder: str) -> str:
    return manifest.recorded(Path(folder))


def spec_of(config: VllmConfig) -> CacheSpec | None:
    """The cache spec a vLLM configuration asks for; None where it does not ask for Kvant."""
    from vllm.v1.attention.backends.registry import AttentionBackendEnum

    wanted = asked(config.additional_config, config.attention_config.backend is AttentionBackendEnum.CUSTOM)
    if wanted is None:
        return None
    size = config.cache_config.block_size
    spec, recipe = read({"block_size": size, **wanted} if isinstance(wanted, dict) else wanted)
    if recipe is not None:
        _check_model(recipe, config)
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
