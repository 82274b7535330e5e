"""What a return hangs on besides the plan: each a range, all of them examples until they are yours."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from kvant.config.section import Section
from kvant.config.words import near
from kvant.errors import ConfigError
from kvant.recipes.strict import settings

FILE = Path(__file__).with_name("assumptions.yaml")


class Range(Section):
    """Three values of one thing, ascending."""

    low: float = Field(ge=0)
    base: float = Field(ge=0)
    high: float = Field(ge=0)

    @model_validator(mode="after")
    def _ascending(self) -> Range:
        if not self.low <= self.base <= self.high:
            raise PydanticCustomError("order", "low, base and high must ascend")
        return self


class Assumptions(Section):
    """By name; the description is what the report says."""

    price_factor: Range | None = Field(None, description="of the catalogue's price")
    hours_per_month: Range | None = Field(None, description="hours an instance is up")
    demand_factor: Range | None = Field(None, description="of the requests planned for")
    gain_realised: Range | None = Field(None, description="of the planned gain in requests")
    power_share: Range | None = Field(None, description="of the rated power that is drawn")
    pue: Range | None = Field(None, description="power of the house per power of the devices")
    energy_price: Range | None = Field(None, description="for a kWh")
    energy_billed: Range | None = Field(None, description="share of it not in the price already")
    engineering_days: Range | None = Field(None, description="days to introduce it, once")
    day_rate: Range | None = Field(None, description="cost of a day")
    operation_days: Range | None = Field(None, description="more days of operation a month")
    worse_share: Range | None = Field(None, description="of answers that become worse")
    worse_cost: Range | None = Field(None, description="cost of such an answer")


class _File(Section):
    assumptions: Assumptions


def assumptions(file: Path | None = None, fixed: Iterable[str] = ()) -> dict[str, Range]:
    """Ours, those of `file` in their place, and `name=value` without a range."""
    found = _ranges(settings(FILE, _File)) | (_ranges(settings(file, _File)) if file else {})
    for text in fixed:
        name, _, value = text.partition("=")
        if name not in found:
            close = near(name, found)
            hint = f"did you mean {close}? " if close else ""
            raise ConfigError(f"--set {text}: {name!r} is not assumed; {hint}known: {', '.join(found)}")
        try:
            number = float(value)
        except ValueError:
            number = -1.0
        if not 0 <= number < 1e15:
            raise ConfigError(f"--set {text}: expected a number from 0, as in {name}={found[name].base:g}")
        found[name] = Range(low=number, base=number, high=number)
    return found


def described(name: str) -> str:
    return Assumptions.model_fields[name].description or ""


def _ranges(read: _File) -> dict[str, Range]:
    return {name: value for name, value in read.assumptions if value is not None}
