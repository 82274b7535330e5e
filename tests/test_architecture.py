"""The rings: who may import whom. Inner rings know nothing of outer ones, and only one knows vLLM."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import kvant

ROOT = Path(kvant.__file__).parent

RINGS = (
    "errors",
    "whole",
    "child",
    "transforms",
    "formats",
    "cache",
    "kernels",
    "config",
    "telemetry",
    "http",
    "models",
    "recipes",
    "research",
    "engine",
    "bench",
    "plan",
    "quality",
    "launch",
    "rollout",
    "gateway",
    "doctor",
    "cli",
)
"""From the inside out: a module imports its own ring and those before it. `config` builds cache specs, so
it stands outside `cache`; nothing inside knows that there is a configuration file."""

CORE = (
    "errors",
    "whole",
    "child",
    "transforms",
    "formats",
    "cache",
    "kernels",
    "config",
    "telemetry",
    "http",
)
"""Rings that run without any framework."""

FRAMEWORKS = ("torch", "vllm", "transformers")
ONLY_IN = {
    "vllm": ("engine",),
    "torch": ("engine", "models", "recipes", "research", "bench", "quality", "doctor"),
    "transformers": ("engine", "models", "recipes", "research", "quality"),
}
"""The rings that may import a framework at all, inside functions or not."""


@dataclass(frozen=True)
class Import:
    """One imported module: where, what, and whether importing the file runs it."""

    file: Path
    line: int
    module: str
    at_import: bool

    @property
    def ring(self) -> str:
        return self.file.relative_to(ROOT).parts[0].removesuffix(".py")

    def __str__(self) -> str:
        return f"{self.file.relative_to(ROOT)}:{self.line} imports {self.module}"


def imports() -> list[Import]:
    return [found for file in sorted(ROOT.rglob("*.py")) for found in _of_file(file)]


def _of_file(file: Path) -> Iterator[Import]:
    tree = ast.parse(file.read_text(encoding="utf-8"), str(file))
    package = ("kvant", *file.relative_to(ROOT).parent.parts)
    yield from _of_nodes(tree.body, file, package, True)


def _of_nodes(
    nodes: list[ast.stmt], file: Path, package: tuple[str, ...], at_import: bool
) -> Iterator[Import]:
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(file, node.lineno, alias.name, at_import)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*base, *filter(None, [node.module])))
            for alias in node.names:
                yield Import(file, node.lineno, f"{module}.{alias.name}", at_import)
        else:
            runs = at_import and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            typing_only = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
            inner = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)]
            handlers = getattr(node, "handlers", []) + getattr(node, "cases", [])
            inner += [child for handler in handlers for child in handler.body]
            yield from _of_nodes(inner, file, package, runs and not typing_only)


ALL = imports()


def test_every_package_has_its_ring():
    known = {*RINGS, "__init__", "__main__"}
    there = {
        p.name.removesuffix(".py")
        for p in ROOT.iterdir()
        if p.suffix == ".py" or (p / "__init__.py").exists()
    }
    assert there - known == set(), "give the new package a place in RINGS"
    assert {"formats", "kernels", "cache", "config", "engine", "cli"} <= there


def test_inner_rings_do_not_import_outer_ones():
    wrong = [
        str(found)
        for found in ALL
        if found.module.startswith("kvant.")
        and found.ring in RINGS
        and (target := found.module.split(".")[1]) in RINGS
        and RINGS.index(target) > RINGS.index(found.ring)
    ]
    assert wrong == []


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_framework_is_imported_only_where_it_belongs(framework):
    users = [found for found in ALL if found.module.split(".")[0] == framework]
    assert users, f"nothing imports {framework}: the walk is broken"
    assert [str(found) for found in users if found.ring not in ONLY_IN[framework]] == []


def test_only_engine_research_and_simulation_need_a_framework_to_be_imported():
    wrong = [
        str(found)
        for found in ALL
        if found.at_import
        and found.ring not in ("engine", "research")
        and "simulated" not in found.file.parts
        and found.module.split(".")[0] in FRAMEWORKS
    ]
    assert wrong == []


def test_the_walk_sees_imports_wherever_they_stand(tmp_path):
    source = (
        "import a\n"
        "if TYPE_CHECKING:\n    import b\n"
        "try:\n    from c import d\nexcept ImportError:\n    import e\n"
        "def f():\n    if x:\n        import g\n"
        "class K:\n    import h\n    def m(self):\n        with y:\n            from . import i\n"
        "match z:\n    case 1:\n        import j\n"
    )
    tree = ast.parse(source)
    found = {
        i.module: i.at_import for i in _of_nodes(tree.body, ROOT / "cli" / "x.py", ("kvant", "cli"), True)
    }
    assert found == {
        "a": True, "b": False, "c.d": True, "e": True, "g": False, "h": True, "kvant.cli.i": False, "j": True
    }  # fmt: skip


def test_the_core_loads_no_framework():
    modules = ", ".join(f"kvant.{ring}" for ring in CORE)
    program = (
        f"import sys; sys.path.insert(0, {str(ROOT.parent)!r})\n"
        f"import {modules}\n"
        f"print([name for name in {FRAMEWORKS} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_a_configuration_becomes_a_cache_spec_without_a_framework():
    program = (
        f"import sys; sys.path.insert(0, {str(ROOT.parent)!r})\n"
        "from kvant.config import load\n"
        "spec = load(None, {'kv_cache.key_bits': 3, 'kv_cache.key_residual_bits': 1}).kv_cache.to_spec()\n"
        "print(spec.name, spec.layout(64, 3).page_bytes > 0)\n"
        f"print([name for name in {FRAMEWORKS} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.stdout, done.stderr) == ("codebook3+jl/int8 True\n[]\n", "")
