"""The options of `vllm serve`, read from the installed vLLM's source without importing it.

Importing vLLM takes ten seconds, which is too long for `kvant config check`; the declarations of its
argument dataclasses carry the same names and types.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kvant.config.words import HIDDEN, is_secret, kind, near, show
from kvant.errors import EngineError

MEND = "run `kvant doctor` to see whether this vLLM is one that Kvant supports"

DECLARED_IN = (
    ("engine/arg_utils.py", ("EngineArgs", "AsyncEngineArgs")),
    ("entrypoints/launchers/cli_args.py", ("BaseFrontendArgs", "FrontendArgs")),
)
PLAIN: dict[str, tuple[type, ...]] = {
    "bool": (bool,),
    "int": (int,),
    "float": (float, int),
    "str": (str,),
    "None": (type(None),),
}


def check(options: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(name, what is wrong) for every option that vLLM does not have or that has another type.

    Without vLLM there is nothing to compare with, and nothing is wrong. Types are compared where vLLM
    declares a plain one; the others are left to vLLM's own check at start.
    """
    known = declared()
    if not known:
        return
    for name, value in options.items():
        if name not in known:
            close = near(name, known)
            yield name, "vLLM has no such option" + (f"; did you mean {close}?" if close else "")
        elif (types := _types(known[name])) and type(value) not in types:
            shown = HIDDEN if isinstance(value, str) and is_secret(name) else show(value)
            yield name, f"{shown} is {kind(value)}, but vLLM declares {known[name]}"


@cache
def declared() -> dict[str, str]:
    """Option -> its type as vLLM writes it; empty when vLLM is not installed."""
    spec = find_spec("vllm")
    if spec is None or not spec.submodule_search_locations:
        return {}
    root = Path(spec.submodule_search_locations[0])
    found: dict[str, str] = {}
    for file, classes in DECLARED_IN:
        try:
            body = ast.parse((root / file).read_text(encoding="utf-8")).body
        except OSError as error:
            raise EngineError(f"vLLM's options cannot be read: {error}; {MEND}") from None
        declarations = {node.name: node for node in body if isinstance(node, ast.ClassDef)}
        for name in classes:
            if name not in declarations:
                raise EngineError(f"vLLM's options cannot be read: {file} declares no {name}; {MEND}")
            found |= dict(_fields(declarations[name]))
    return found


def _fields(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            name = statement.target.id
            if not name.startswith("_"):
                yield name, ast.unparse(statement.annotation)


def _types(declaration: str) -> tuple[type, ...]:
    """The Python types of `int | None` and the like; nothing for anything richer."""
    parts = [part.strip() for part in declaration.split("|")]
    if not all(part in PLAIN for part in parts):
        return ()
    return tuple(plain for part in parts for plain in PLAIN[part])
