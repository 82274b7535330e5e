"""A first look at our option on vLLM's command line, before vLLM loads anything.

vLLM gives a plugin no look at the configuration in the API process: a worker would be the first to see it,
half a minute later, and its words would drown in those of the processes around it. But vLLM loads plugins
before it parses its command line, and that is there to be read. Options that come another way (Python's
`LLM(...)`) are judged by the worker alone, with the same words.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

from kvant.engine.selection import asked, read


def check(argv: Sequence[str]) -> None:
    """Raise ConfigError for a command line of vLLM's that asks for what Kvant cannot do.

    Silent about other programs, and about everything that vLLM refuses itself.
    """
    if not argv or not _is_vllm(argv[0]):
        return
    try:
        additional, backend = _parse(argv[1:])
    except Exception:  # vLLM parses the same words next, and says what is wrong with them
        return
    wanted = asked(additional, backend.upper() == "CUSTOM")
    if wanted is not None:
        read(wanted)


def _is_vllm(program: str) -> bool:
    spec = find_spec("vllm")
    folders = [Path(folder) for folder in (spec and spec.submodule_search_locations) or ()]
    path = Path(program)
    return path.name == "vllm" or any(folder in path.parents for folder in folders)


def _parse(words: Sequence[str]) -> tuple[Any, str]:
    """`additional_config` and the backend, however vLLM lets them be written (underscores, dots, a file)."""
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    class Parser(FlexibleArgumentParser):
        def parse_known_args(self, *args: Any, **kwargs: Any) -> tuple[argparse.Namespace, list[str]]:
            known, _ = super().parse_known_args(*args, **kwargs)
            return known, []

        def error(self, message: str) -> NoReturn:
            raise ValueError(message)

    parser = Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("--attention-backend")
    parser.add_argument("--attention-config", "-ac", type=json.loads, default={})
    parser.add_argument("--additional-config", type=json.loads, default={})
    given = parser.parse_args(list(words))
    return given.additional_config, str(given.attention_backend or given.attention_config.get("backend"))
