"""YAML text -> a tree of plain values that remembers its lines.

Built from ruamel.yaml's events without recursion, so a hostile file can neither exhaust the stack
nor memory: size, depth and the number of values after expanding aliases are limited. No tag is
obeyed. A key given twice is an error. Knows nothing of settings.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from ruamel.yaml import YAML, events
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.reader import ReaderError

from kvant.config.scalars import Scalar, resolve
from kvant.config.words import show
from kvant.errors import ConfigError

MAX_BYTES = 256 * 1024
MAX_DEPTH = 16
MAX_VALUES = 10_000


@dataclass(frozen=True)
class Node:
    """A value and the line it is written in (of its key, inside a mapping)."""

    value: Scalar | list[Node] | dict[str, Node]
    line: int
    weight: int = 1

    def plain(self) -> Any:
        """The value without lines."""
        if isinstance(self.value, dict):
            return {name: node.plain() for name, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value


@dataclass(frozen=True)
class Document:
    """What was read; `problems` are (line, message) that did not stop the reading."""

    root: Node
    problems: list[tuple[int, str]]


@dataclass
class _Frame:
    """A collection that is still open."""

    event: Any
    kept: bool
    items: list[Node] = field(default_factory=list)
    entries: dict[str, Node] = field(default_factory=dict)
    key: Node | None = None


def read(data: bytes, name: str) -> Document:
    """Parse `data`; `ConfigError` with `name:line` when it is not YAML or not a sane configuration."""
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{name}: larger than {MAX_BYTES // 1024} KiB; this is no configuration file")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"{name}:{line}: byte 0x{data[error.start]:02x} is not UTF-8; save the file as UTF-8"
        ) from None
    return _Builder(name).build(text)


class _Builder:
    def __init__(self, name: str) -> None:
        self.name = name
        self.problems: list[tuple[int, str]] = []
        self.anchors: dict[str, Node] = {}
        self.stack: list[_Frame] = []
        self.root: Node | None = None

    def build(self, text: str) -> Document:
        for event in self._events(text):
            line = event.start_mark.line + 1
            if isinstance(event, events.DocumentStartEvent) and self.root is not None:
                self._stop(line, "a second document begins; keep one, and delete the '---' before it")
            elif isinstance(event, events.AliasEvent):
                self._alias(str(event.anchor), line)
            elif isinstance(event, events.ScalarEvent):
                self._scalar(event, line)
            elif isinstance(event, events.CollectionStartEvent):
                if len(self.stack) == MAX_DEPTH:
                    self._stop(line, f"nested more than {MAX_DEPTH} levels deep")
                self.stack.append(_Frame(event, self._untagged(event, event.implicit, line)))
            elif isinstance(event, events.CollectionEndEvent):
                self._close()
        return Document(self.root or Node(None, 1), self.problems)

    def _events(self, text: str) -> Iterator[Any]:
        try:
            yield from YAML(typ="safe", pure=True).parse(text)
        except ReaderError as error:
            line = text.count("\n", 0, error.position) + 1
            self._stop(line, f"character U+{error.character:04X} is not allowed in YAML")
        except MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            self._stop(mark.line + 1 if mark else 1, _syntax(error))
        except (YAMLError, ValueError, OverflowError) as error:
            # An escape beyond Unicode or an absurd version number, which ruamel.yaml does not catch.
            self._stop(1, f"not valid YAML: {error}")

    def _scalar(self, event: Any, line: int) -> None:
        plain, quoted = event.implicit
        if self._untagged(event, plain or quoted, line):
            self._add(Node(resolve(event.value) if plain else event.value, line), event.anchor)
        else:
            self._add(None, None)

    def _alias(self, anchor: str, line: int) -> None:
        if anchor not in self.anchors:
            self._stop(line, f"*{anchor} refers to nothing that is complete before this line")
        self._add(replace(self.anchors[anchor], line=line), None)

    def _close(self) -> None:
        frame = self.stack.pop()
        line = frame.event.start_mark.line + 1
        value: Any = frame.entries if isinstance(frame.event, events.MappingStartEvent) else frame.items
        inside = value.values() if isinstance(value, dict) else value
        node = Node(value, line, 1 + sum(child.weight for child in inside))
        if node.weight > MAX_VALUES:
            self._stop(line, f"expands to more than {MAX_VALUES} values")
        self._add(node if frame.kept else None, frame.event.anchor)

    def _add(self, node: Node | None, anchor: str | None) -> None:
        """Put a finished value where it belongs; None is one that was refused."""
        if anchor is not None and node is not None:
            self.anchors[str(anchor)] = node
        if not self.stack:
            self.root = node or Node(None, 1)
            return
        frame = self.stack[-1]
        if not isinstance(frame.event, events.MappingStartEvent):
            if node is not None:
                frame.items.append(node)
        elif frame.key is None:
            frame.key = node or Node(None, 0)
        else:
            key, frame.key = frame.key, None
            self._entry(frame, key, node)

    def _entry(self, frame: _Frame, key: Node, node: Node | None) -> None:
        name = key.value
        if not key.line:
            return
        if name == "<<":
            self.problems.append((key.line, "merge keys (<<) are not supported; write the fields out"))
        elif not isinstance(name, str):
            what = show(name) if not isinstance(name, list | dict) else "a collection"
            self.problems.append((key.line, f"{what} is not a field name; quote it if it is meant as one"))
        elif name in frame.entries:
            first = frame.entries[name].line
            self.problems.append((key.line, f"{show(name)} is given twice, first in line {first}; keep one"))
        elif node is not None:
            frame.entries[name] = replace(node, line=key.line)

    def _untagged(self, event: Any, implicit: bool, line: int) -> bool:
        if not implicit:
            tag = str(event.tag).replace("tag:yaml.org,2002:", "!!")
            self.problems.append(
                (line, f"tag {show(tag)} is not allowed; write the plain value, quoted for text")
            )
        return implicit

    def _stop(self, line: int, message: str) -> NoReturn:
        raise ConfigError(f"{self.name}:{line}: {message}") from None


def _syntax(error: MarkedYAMLError) -> str:
    parts = [str(part) for part in (error.context, error.problem) if part]
    message = " ".join(" ".join(parts).split())
    hint = "; indent with blanks, not tabs" if "\\t" in message else ""
    return f"not valid YAML: {message}{hint}"
