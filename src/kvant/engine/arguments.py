"""Settings -> the command line that `vllm serve` would be given, parsed by vLLM's own parser.

Going through the parser means that an option under `engine:` is read exactly as vLLM reads it.
"""

from __future__ import annotations

import difflib
import json
from argparse import Namespace
from typing import Any, NoReturn

from kvant.cache.spec import CacheSpec
from kvant.config import Settings
from kvant.engine.environment import KV_SPACE, eager
from kvant.errors import EngineError

GIB = 1 << 30
AUTO_FIT = -1
"""vLLM's max_model_len for "the model's own maximum, or as much of it as the cache holds"."""


def options(
    settings: Settings,
    model: str,
    spec: CacheSpec | None,
    *,
    served_name: str,
    cpu: bool,
    env: dict[str, str],
) -> dict[str, Any]:
    """vLLM option name -> value; what the user wrote under `engine:` comes last.

    Without a spec, the cache is vLLM's own.
    """
    serving, cache = settings.serving, settings.kv_cache
    chosen: dict[str, Any] = {
        "model": model,
        "dtype": settings.model.dtype,
        "served_model_name": [served_name],
        "max_model_len": AUTO_FIT if serving.max_context is None else serving.max_context,
        "max_num_seqs": serving.max_batch,
        "tensor_parallel_size": serving.tensor_parallel,
        "block_size": cache.block_size,
        # How the start-up check asks every worker what it runs.
        "worker_extension_cls": "kvant.engine.report.WorkerReport",
        # `usage` tells how many tokens came from the prefix cache.
        "enable_prompt_tokens_details": True,
    }
    if cache.max_cache_blocks is not None:
        chosen["num_gpu_blocks_override"] = cache.max_cache_blocks
    memory = cache.memory_gib
    if memory is None and cpu and not env.get(KV_SPACE):
        memory = 1.0
    if memory is not None:
        chosen["kv_cache_memory_bytes"] = int(memory * GIB)
    if spec is not None:
        chosen["attention_backend"] = "CUSTOM"
        chosen["additional_config"] = {"kvant": spec.to_json()}
    if cpu:
        chosen["enforce_eager"] = eager(settings)
    for name, value in settings.engine.items():
        chosen[name.removeprefix("--").replace("-", "_")] = value
    return chosen


def command_line(chosen: dict[str, Any]) -> list[str]:
    """The options as `vllm serve` would be given them."""
    words: list[str] = []
    for name, value in chosen.items():
        flag = name.replace("_", "-")
        if value is None:
            continue
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        elif isinstance(value, dict):
            words.append(f"--{flag}={json.dumps(value)}")
        elif isinstance(value, list | tuple):
            words += [f"--{flag}", *(json.dumps(v) if isinstance(v, dict) else str(v) for v in value)]
        else:
            words.append(f"--{flag}={value}")
    return words


def parse(chosen: dict[str, Any]) -> Namespace:
    """vLLM's Namespace of these options; `EngineError` carries the parser's own words."""
    from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    class Parser(FlexibleArgumentParser):
        def error(self, message: str) -> NoReturn:
            raise EngineError(f"vLLM refuses its options: {message}{_hint(message, known)}")

    parser = make_arg_parser(Parser(allow_abbrev=False))
    known = sorted(vars(parser.parse_args([])))
    args: Namespace = parser.parse_args(command_line(chosen))
    try:
        validate_parsed_serve_args(args)
    except (TypeError, ValueError) as error:
        raise EngineError(f"vLLM refuses its options: {error}") from error
    return args


def _hint(message: str, known: list[str]) -> str:
    _, _, unknown = message.partition("unrecognized arguments: --")
    name = unknown.split("=")[0].split(" ")[0].removeprefix("no-").replace("-", "_")
    close = difflib.get_close_matches(name, known, 1) if unknown else []
    return f"; did you mean engine.{close[0]}?" if close else ""
