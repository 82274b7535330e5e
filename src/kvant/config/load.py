"""The one way to settings: a file and overrides in, `Settings` or one `ConfigError` with all problems out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from kvant.config.explain import explain, section_of
from kvant.config.reader import MAX_BYTES, read
from kvant.config.rules import Contradiction, Contradictions
from kvant.config.settings import Settings
from kvant.config.sources import DEFAULT, Problem, Sources
from kvant.config.words import HIDDEN, dotted, is_secret, show
from kvant.errors import ConfigError

Root = TypeVar("Root", bound=BaseModel)
Place = tuple[int | str, ...]

EngineCheck = Callable[[Mapping[str, Any]], Iterable[tuple[str, str]]]
"""Options of the `engine` section -> (name, what is wrong with it); see kvant.engine.options."""


@dataclass(frozen=True)
class Loaded(Generic[Root]):
    """Settings, and where each field was written."""

    settings: Root
    sources: Sources

    def origin(self, field: str) -> str:
        """`kvant.yaml:12`, `--port` or `default`, of a dotted field name."""
        return self.sources.origin(field.split("."))


def load(
    path: Path | str | None = None,
    overrides: Mapping[str, Any] | None = None,
    *,
    flags: Mapping[str, str] | None = None,
    engine_check: EngineCheck | None = None,
) -> Settings:
    """Settings from a YAML file (None: all defaults) and overrides by dotted field name.

    `flags` names the command-line option behind an override, for messages. Raises `ConfigError`.
    """
    return resolve(path, overrides, flags=flags, engine_check=engine_check).settings


def resolve(
    path: Path | str | None = None,
    overrides: Mapping[str, Any] | None = None,
    *,
    flags: Mapping[str, str] | None = None,
    engine_check: EngineCheck | None = None,
) -> Loaded[Settings]:
    """Like `load`, and tells where each field comes from."""
    return resolve_as(Settings, path, overrides, flags=flags, engine_check=engine_check)


def resolve_as(
    root: type[Root],
    path: Path | str | None = None,
    overrides: Mapping[str, Any] | None = None,
    *,
    flags: Mapping[str, str] | None = None,
    engine_check: EngineCheck | None = None,
    example: str = "kvant config example > FILE",
) -> Loaded[Root]:
    """The same for a file of another kind: `root` is the section of its sections, `example` writes one."""
    sources = Sources()
    if path is not None:
        sources.add_file(read(_bytes(Path(path), example), str(path)), str(path))
    for field, value in (overrides or {}).items():
        flag = (flags or {}).get(field, "override")
        sources.add_flag(flag, tuple(field.split(".")), value)
    settings, problems = _validate(root, sources, engine_check)
    if settings is None or problems:
        raise ConfigError("\n".join(str(p) for p in sorted(problems, key=lambda p: p.rank)))
    return Loaded(settings, sources)


def _bytes(path: Path, example: str) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file; write one with `{example}`") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"{path}: cannot be read: {reason}") from None


def _validate(
    root: type[Root], sources: Sources, engine_check: EngineCheck | None
) -> tuple[Root | None, list[Problem]]:
    """Check the fields, and the rules between those that are right, so that all is reported at once."""
    problems = list(sources.problems)
    settings, errors, broken = _attempt(root, sources.values)
    if errors:
        places = [error["loc"] for error in errors]
        problems += [sources.problem(error["loc"], explain(error, root)) for error in errors]
        _, _, broken = _attempt(root, _without(sources.values, places))
        broken = [rule for rule in broken if not _touches(rule, places)]
    problems += [_contradiction(rule, sources, root) for rule in broken]
    options = sources.values.get("engine")
    if engine_check and isinstance(options, dict):
        ours = {rule.field for rule in broken}
        problems += [
            sources.problem(("engine", name), text)
            for name, text in engine_check(options)
            if f"engine.{name}" not in ours
        ]
    return settings, problems


def _attempt(
    root: type[Root], values: dict[str, Any]
) -> tuple[Root | None, list[ErrorDetails], list[Contradiction]]:
    try:
        return root.model_validate(values), [], []
    except ValidationError as invalid:
        errors = invalid.errors(include_url=False)
    for error in errors:
        raised = error.get("ctx", {}).get("error")
        if isinstance(raised, Contradictions):
            return None, [], [rule.under(dotted(error["loc"])) for rule in raised.found]
    return None, errors, []


def _without(values: dict[str, Any], places: list[Place]) -> dict[str, Any]:
    """A copy with the wrong fields left out; of a list with a wrong item, nothing is kept."""
    copy = {name: dict(inner) if isinstance(inner, dict) else inner for name, inner in values.items()}
    for section, *rest in places:
        if rest and isinstance(copy.get(str(section)), dict):
            copy[str(section)].pop(rest[0], None)
        else:
            copy.pop(str(section), None)
    return copy


def _touches(rule: Contradiction, places: list[Place]) -> bool:
    """True where the verdict of a rule rests on a field that is itself wrong."""
    return any(tuple(name.split("."))[: len(place)] == place[:2] for name in rule.fields for place in places)


def _contradiction(rule: Contradiction, sources: Sources, root: type[BaseModel]) -> Problem:
    """The broken rule, placed at the first of its fields that was written, with the values of all."""
    paths = [tuple(name.split(".")) for name in rule.fields]
    written = next((path for path in paths if sources.origin(path) != DEFAULT), paths[0])
    text = f"{_value(paths[0], sources, root)} {rule.reason}"
    if paths[1:]:
        stated = (f"{dotted(p)} is {_value(p, sources, root)}, {sources.origin(p)}" for p in paths[1:])
        text += f" ({'; '.join(stated)})"
    return replace(sources.problem(written, text), path=paths[0])


def _value(path: tuple[str, ...], sources: Sources, root: type[BaseModel]) -> str:
    *sections, name = path
    written: Any = sources.values
    for section in sections:
        written = (written.get(section) if isinstance(written, dict) else None) or {}
    if name in written:
        value = written[name]
        return HIDDEN if is_secret(name) and isinstance(value, str) else show(value)
    owner = section_of(sections, root)
    return show(owner.model_fields[name].default) if owner else show(None)
