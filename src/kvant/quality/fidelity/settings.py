"""What is the same for all rows of one measurement."""

from __future__ import annotations

from dataclasses import dataclass

from kvant.errors import ConfigError

LEAST = 16
"""Fewest scored positions: below, a standard error means nothing."""


@dataclass(frozen=True)
class Settings:
    """Tokens of context, positions not scored, type of the model's weights, cores."""

    tokens: int
    skip: int
    dtype: str
    by_position: bool
    threads: str
    even: bool = False
    """Buckets of positions all of one width."""
    control: str = ""
    """Model whose 16-bit cache is compared with, where it is another than the model itself."""

    @property
    def first(self) -> int:
        """The first position that is scored at all."""
        return 0 if self.by_position else self.skip

    def __post_init__(self) -> None:
        if self.skip < 0 or self.tokens - 1 - self.skip < LEAST:
            raise ConfigError(
                f"--tokens {self.tokens} --skip {self.skip}: {LEAST} positions at least must be left to score"
            )

    def check(self, model: str, longest: int | None) -> None:
        """Refuse more tokens than the model has positions."""
        if longest is not None and self.tokens >= longest:
            raise ConfigError(f"--tokens {self.tokens}: {model} has {longest} positions; ask for fewer")
