"""Values from a file and from flags, merged, each with the place it was written in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from kvant.config.reader import Document, Node
from kvant.config.words import dotted, kind

Path = tuple[str | int, ...]

DEFAULT = "default"


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: where it was written, which field, and what to do."""

    path: Path
    text: str
    origin: str
    rank: tuple[int, int] = (1, 0)

    def __str__(self) -> str:
        name = dotted(self.path)
        return ": ".join(part for part in (self.origin, name, self.text) if part)


@dataclass
class Sources:
    """Nested plain `values`, and where each came from."""

    values: dict[str, Any] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    _origins: dict[Path, tuple[str, int]] = field(default_factory=dict)

    def problem(self, path: Iterable[str | int], text: str) -> Problem:
        """A problem with this field, with the place that set it."""
        path = tuple(path)
        origin, line = self._find(path)
        rank = (0, line) if line else (1, 0)
        return Problem(path, text, "" if origin == DEFAULT else origin, rank)

    def origin(self, path: Iterable[str | int]) -> str:
        """`kvant.yaml:12`, `--port` or `default`."""
        return self._find(tuple(path))[0]

    def add_file(self, document: Document, name: str) -> None:
        """Take over a file. A section without a value is an empty section."""
        for line, text in document.problems:
            self.problems.append(Problem((), text, f"{name}:{line}", (0, line)))
        root = document.root
        if root.value is None:
            return
        if not isinstance(root.value, dict):
            what = kind(root.plain())
            text = f"the file holds {what}; write sections such as 'serving:' with fields below them"
            self.problems.append(Problem((), text, f"{name}:{root.line}", (0, root.line)))
            return
        for section, node in root.value.items():
            self._note((section,), node, name)
            if node.value is not None:
                self.values[section] = node.plain()

    def add_flag(self, flag: str, path: tuple[str, ...], value: Any) -> None:
        """One override; it wins over the file."""
        place: dict[str, Any] = self.values
        for depth, part in enumerate(path[:-1], 1):
            inner = place.setdefault(part, {})
            if not isinstance(inner, dict):
                text = f"cannot be set, because {dotted(path[:depth])} is {kind(inner)}"
                self.problems.append(Problem(path, text, flag))
                return
            place = inner
        place[path[-1]] = value
        self._origins = {p: o for p, o in self._origins.items() if p[: len(path)] != path}
        self._origins[path] = (flag, 0)

    def _note(self, path: Path, node: Node, name: str) -> None:
        self._origins[path] = (f"{name}:{node.line}", node.line)
        if isinstance(node.value, dict):
            for key, inner in node.value.items():
                self._note((*path, key), inner, name)
        elif isinstance(node.value, list):
            for index, inner in enumerate(node.value):
                self._note((*path, index), inner, name)

    def _find(self, path: Path) -> tuple[str, int]:
        for length in range(len(path), 0, -1):
            found = self._origins.get(path[:length])
            # A field that is not written has no line, even where its section has one.
            if found and (length == len(path) or length > 1 or not found[1]):
                return found
        below = (place for name, place in self._origins.items() if name[: len(path)] == path)
        return next(below, (DEFAULT, 0))
