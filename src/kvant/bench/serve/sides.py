"""The two sides: stock vLLM's own server and `kvant serve`, with the same flags and the same threads."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from kvant.bench.serve.cases import BATCHED
from kvant.config import Settings, load
from kvant.config.kv_cache import KVCache
from kvant.engine import environment
from kvant.engine.arguments import command_line
from kvant.errors import ConfigError, KvantError
from kvant.recipes import preset as presets

STOCK = "vllm_bf16"
SERVED = "bench"
"""The model's name on both servers."""

PLAIN = KVCache()

SECONDS = 86_400
"""A request may take as long as it takes: Kvant's own limit must not end what stock vLLM would finish."""


@dataclass(frozen=True)
class Setup:
    """What both sides are given alike. `memory` in GiB; `threads_bind` as vLLM writes cores ("0-1")."""

    model: Path
    memory: int
    max_model_len: int
    max_num_seqs: int
    threads_bind: str
    eager: bool = True
    block_size: int | None = None

    @property
    def engine(self) -> dict[str, Any]:
        """Options of vLLM that Kvant has no name of its own for."""
        return {
            "max_num_batched_tokens": BATCHED,
            "enforce_eager": self.eager,
            "enable_prefix_caching": False,
        }


@dataclass(frozen=True)
class Side:
    """How one server is started. `env` comes on top of this process's own environment."""

    name: str
    command: tuple[str, ...]
    env: Mapping[str, str]


def stock(setup: Setup, port: int) -> Side:
    """`python -m vllm.entrypoints.openai.api_server`, into which Kvant's plugin is not even loaded."""
    options = {
        "model": setup.model,
        "served_model_name": [SERVED],
        "host": "127.0.0.1",
        "port": port,
        "dtype": "bfloat16",
        "max_model_len": setup.max_model_len,
        "max_num_seqs": setup.max_num_seqs,
        "block_size": setup.block_size,
        **setup.engine,
    }
    command = (sys.executable, "-m", "vllm.entrypoints.openai.api_server", *command_line(options))
    return Side(STOCK, command, _env(setup, load(None, _fields(setup, "bf16", port))) | {"VLLM_PLUGINS": ""})


def kvant(setup: Setup, fmt: str, port: int) -> Side:
    """`kvant serve` with keys and values in `fmt`: a preset, one format, or KEY/VALUE."""
    fields = _fields(setup, fmt, port)
    settings = load(None, fields)
    words = [f"--set={name}={json.dumps(value)}" for name, value in fields.items()]
    command = (sys.executable, "-c", "from kvant.cli import main; main()", "serve", *words)
    return Side(fmt, command, _env(setup, settings))


def cache_fields(fmt: str) -> dict[str, Any]:
    """The fields of `kv_cache` that have this name: a preset, or formats.

    Formats are the inverse of `KVCache`, found by trying; `ConfigError` for a name that nothing has. int8 is
    both: one format on both sides, and the preset that says so.
    """
    if fmt in presets.names():
        return {"preset": fmt}
    key, _, value = fmt.partition("/")
    wanted = (key, value or key.removesuffix("+jl"))
    bits = (8, 4, 3, 2, 16)
    for codec, scale, asymmetric, residual, key_bits, value_bits in product(
        ("auto", "int", "codebook", "polar", "trellis"), ("bf16", "byte"), (False, True), (0, 1), bits, bits
    ):
        fields = {
            "codec": codec,
            "scale": scale,
            "asymmetric": asymmetric,
            "key_residual_bits": residual,
            "key_bits": key_bits,
            "value_bits": value_bits,
        }
        cache = KVCache.model_validate(fields)
        if (cache.key_format, cache.value_format) == wanted:
            changed = {name: value for name, value in fields.items() if value != getattr(PLAIN, name)}
            with contextlib.suppress(KvantError):  # a rule between fields; others may have the name as well
                load(None, {f"kv_cache.{name}": value for name, value in changed.items()})
                return changed
    raise ConfigError(
        f"--formats: {fmt!r} is no format and no preset of `kvant serve`; codebook4, int8/codebook4 or "
        f"{', '.join(presets.names())} are"
    )


def _fields(setup: Setup, fmt: str, port: int) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "model.path": str(setup.model),
        "model.served_name": SERVED,
        "serving.port": port,
        "serving.max_context": setup.max_model_len,
        "serving.max_batch": setup.max_num_seqs,
        "serving.max_concurrency": 2 * setup.max_num_seqs,
        "serving.timeout": SECONDS,
    }
    if setup.block_size is not None:
        fields["kv_cache.block_size"] = setup.block_size
    fields |= {f"kv_cache.{name}": value for name, value in cache_fields(fmt).items()}
    return fields | {f"engine.{name}": value for name, value in setup.engine.items()}


def _env(setup: Setup, settings: Settings) -> dict[str, str]:
    """What `kvant serve` sets for itself is set for both sides, so that neither gains by it."""
    return environment.defaults(settings, cpu=True, local_model=True) | {
        environment.KV_SPACE: str(setup.memory),
        "VLLM_CPU_OMP_THREADS_BIND": setup.threads_bind,
    }
