"""The shapes that are measured, and how `--only` selects among them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import product

from kvant.errors import ConfigError

FORMATS = ("int8", "codebook4", "codebook3", "codebook2")


@dataclass(frozen=True)
class Case:
    """One attention call: `batch` sequences of `context` tokens, of which the last `tokens` are queries."""

    head_dim: int
    group: int
    kv_heads: int
    context: int = 8192
    batch: int = 1
    tokens: int = 1

    @property
    def vectors(self) -> int:
        """Keys (and values) that one call reads."""
        return self.context * self.batch * self.kv_heads

    def __str__(self) -> str:
        phase = "decode" if self.tokens == 1 else f"prefill {self.tokens}"
        return f"{phase} D{self.head_dim} G{self.group} {self.context} x{self.batch}"


HEADS = {3: 3, 7: 2}
"""KV heads as models of these groups have them (SmolLM2, Qwen2.5-0.5B); 2 otherwise."""

DEFAULT = (
    Case(64, 3, 3),
    Case(64, 7, 2),
    Case(128, 4, 2),
    Case(256, 4, 2),
    Case(64, 3, 3, context=8704, tokens=512),
)


def full() -> tuple[Case, ...]:
    """Every head size, group, context and batch of the docs' table, and prefill at the default shapes."""
    grid = product((64, 128, 256), (1, 3, 4, 7, 8), (512, 2048, 8192, 32768), (1, 8))
    decode = tuple(Case(d, g, HEADS.get(g, 2), n, b) for d, g, n, b in grid)
    return decode + tuple(Case(d, g, HEADS.get(g, 2), 8704, 1, 512) for d, g in ((64, 3), (128, 4), (256, 4)))


def select(cases: tuple[Case, ...], only: str) -> tuple[tuple[Case, ...], tuple[str, ...]]:
    """The cases and formats that `only` leaves: "head_dim=64,group=3,format=codebook4"."""
    formats: tuple[str, ...] = FORMATS
    for part in filter(None, only.split(",")):
        name, _, value = part.partition("=")
        if name == "format":
            formats = tuple(f for f in formats if f == value) or (value,)
            continue
        if name not in asdict(cases[0]) or not value.isdigit():
            known = ", ".join(("format", *asdict(cases[0])))
            raise ConfigError(f"--only: {part!r} is not NAME=NUMBER with a name of {known}")
        cases = tuple(c for c in cases if getattr(c, name) == int(value))
        if not cases:
            raise ConfigError(f"--only: no case is left after {part!r}; --full has more cases")
    return cases, formats
