"""A file of Prometheus alert rules: names, and the series that each looks at."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvant.config.reader import MAX_BYTES
from kvant.config.reader import read as read_yaml
from kvant.errors import ConfigError, EngineError

SERIES = re.compile(r"\b(?:(?:kvant|process)_|vllm:)\w+|\bup\b")


@dataclass(frozen=True)
class Rule:
    """An alert; `series` are the names of Kvant's and vLLM's metrics in its expression."""

    name: str
    expression: str
    series: frozenset[str]


def read(file: Path) -> list[Rule]:
    """`EngineError` where the file holds no rules."""
    try:
        with file.open("rb") as opened:
            document = read_yaml(opened.read(MAX_BYTES + 1), str(file))
    except OSError as error:
        raise EngineError(f"{file}: cannot be read: {error.strerror}") from None
    except ConfigError as error:
        raise EngineError(str(error)) from None
    plain: Any = document.root.plain()
    groups = plain.get("groups") if isinstance(plain, dict) else None
    found = [_rule(rule) for group in groups or () for rule in group.get("rules", ()) if "alert" in rule]
    if not found:
        raise EngineError(f"{file}: holds no alert (groups: - rules: - alert)")
    return found


def _rule(rule: dict[str, Any]) -> Rule:
    expression = str(rule.get("expr", ""))
    return Rule(str(rule["alert"]), expression, frozenset(SERIES.findall(expression)))
