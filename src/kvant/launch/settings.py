"""What a launch must keep to: one small YAML file, read as strictly as the service's own.

The defaults are what a reader of a chat would put up with. They are limits of yours, no claim of ours.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from kvant.config.docs import dump
from kvant.config.section import File, Section
from kvant.errors import ConfigError
from kvant.quality.gate.settings import Settings as Gate
from kvant.recipes import strict

Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1, le=100_000)]


class Memory(Section):
    """What the service has against what `kvant plan` says it should have."""

    tolerance: Share = Field(default=0.01, description="Most that bytes and blocks may differ, as a share.")


class Speed(Section):
    """Answers at 1, 2, 4, ... streams at once, up to max_batch or to where more gain nothing."""

    prompt: Count = Field(default=512, description="Tokens of a prompt, about.")
    answer: Count = Field(default=64, description="Tokens of an answer.")
    rounds: Count = Field(default=3, description="Turns at each number of streams; all must keep the limits.")
    knee: Share = Field(default=0.10, description="Gain in throughput below which no more streams are tried.")
    ttft: Positive | None = Field(
        default=10.0, description="Most seconds to the first token; null: no limit."
    )
    tpot: Positive | None = Field(default=0.25, description="Most seconds between tokens; null: no limit.")
    throughput: Positive | None = Field(
        default=None, description="Least tokens per second at the best number of streams; null: no limit."
    )


class Soak(Section):
    """Mixed load for a chosen time."""

    seconds: Positive = Field(default=1800.0, description="How long (--soak 30m).")
    streams: Count = Field(default=4, description="Requests in flight.")
    prompt: Count = Field(default=512, description="Tokens of a long prompt, about; most are shorter.")
    answer: Count = Field(default=48, description="Most tokens of an answer.")
    memory: Positive = Field(default=0.02, description="Most that resident memory may grow, as a share.")
    latency: Positive = Field(default=0.25, description="Most that latency may grow, as a share.")
    alpha: Annotated[float, Field(gt=0, lt=0.5)] = Field(
        default=0.05, description="One-sided error of every interval's ends."
    )


class Settings(Section):
    """Everything `kvant launch-check` can be told by a file (--limits)."""

    memory: Memory = Field(default_factory=Memory)
    speed: Speed = Field(default_factory=Speed)
    gate: Gate = Field(default_factory=Gate, description="As of `kvant gate -c`.")
    soak: Soak = Field(default_factory=Soak)
    rules: File | None = Field(
        default=None, description="Alert rules; null takes those that come with Kvant."
    )
    alert_url: str | None = Field(
        default=None, description="Gets the test alert (--alert-url); null: it is not run, which is not pass."
    )


def load(path: Path | None) -> Settings:
    """The settings in a file, all defaults without one; `ConfigError` names file, line and field."""
    return Settings() if path is None else strict.settings(path, Settings)


def example() -> str:
    """A file with every field at its default."""
    return dump(Settings().model_dump(mode="json"))


def seconds(text: str, flag: str) -> float:
    """`90`, `90s`, `30m` or `8h`."""
    units = {"s": 1.0, "m": 60.0, "h": 3600.0}
    number, unit = (text[:-1], text[-1]) if text[-1:] in units else (text, "s")
    try:
        found = float(number) * units[unit]
    except ValueError:
        found = 0.0
    if not 0 < found <= 30 * 24 * 3600:
        raise ConfigError(f"{flag} {text}: is no time; write 90s, 30m or 8h")
    return found
