"""All settings of one service: the sections, the rules between them, and what is worth a warning."""

from __future__ import annotations

from typing import Any

from pydantic import Field, model_validator

from kvant.config import advice, rules
from kvant.config.kv_cache import KVCache
from kvant.config.model import Model
from kvant.config.monitoring import Monitoring
from kvant.config.section import Section
from kvant.config.security import Security
from kvant.config.serving import Serving
from kvant.config.words import HIDDEN, is_secret


class Settings(Section):
    """Everything `kvant serve` can be told."""

    model: Model = Field(default_factory=Model)
    serving: Serving = Field(default_factory=Serving)
    kv_cache: KVCache = Field(default_factory=KVCache)
    monitoring: Monitoring = Field(default_factory=Monitoring)
    security: Security = Field(default_factory=Security)
    engine: dict[str, Any] = Field(
        default_factory=dict,
        repr=False,
        description="Any other option of `vllm serve` by its own name, with underscores.",
    )

    @model_validator(mode="after")
    def _no_contradictions(self) -> Settings:
        found = rules.contradictions(self)
        if found:
            raise rules.Contradictions(found)
        return self

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is allowed but probably not meant; each line names a field."""
        return tuple(advice.warnings(self))

    def masked(self) -> dict[str, Any]:
        """Plain values of all fields, as they could stand in a file, with secrets hidden."""
        hidden: dict[str, Any] = _mask(self.model_dump(mode="json"))
        return hidden


def _mask(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: HIDDEN if is_secret(name) and isinstance(inner, str) else _mask(inner)
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [_mask(inner) for inner in value]
    return value
