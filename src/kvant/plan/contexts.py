"""How long requests are: tokens of prompt and answer together, and how many of them are answer."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kvant.errors import ConfigError

ANSWER = 0.25
"""Share of a request that is its answer, where nothing else is known."""
MOST_ROWS = 100_000
MOST_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True)
class Contexts:
    """Lengths in tokens, ascending, and their shares, which add up to 1."""

    lengths: tuple[int, ...]
    shares: tuple[float, ...]
    answer: float
    """Mean tokens of an answer."""
    source: str
    requests: int = 0
    """Requests that were counted, 0 where nothing was."""

    @property
    def mean(self) -> float:
        return sum(length * share for length, share in zip(self.lengths, self.shares, strict=True))

    @property
    def longest(self) -> int:
        return self.lengths[-1]

    def quantile(self, part: float) -> int:
        """The length that `part` of all requests do not exceed."""
        seen = 0.0
        for length, share in zip(self.lengths, self.shares, strict=True):
            seen += share
            if seen >= part - 1e-12:
                return length
        return self.longest

    def over(self, cost: Iterable[float]) -> tuple[float, float]:
        """Mean and standard deviation of a cost given for each length."""
        costs = list(cost)
        mean = sum(c * share for c, share in zip(costs, self.shares, strict=True))
        square = sum((c - mean) ** 2 * share for c, share in zip(costs, self.shares, strict=True))
        return mean, math.sqrt(square)


def weighted(pairs: Iterable[tuple[int, float]], answer: float | None, source: str, n: int = 0) -> Contexts:
    """From unordered (tokens, weight); lengths given twice are added up."""
    total: dict[int, float] = {}
    for length, weight in pairs:
        total[length] = total.get(length, 0.0) + weight
    kept = sorted((length, weight) for length, weight in total.items() if weight > 0)
    if not kept:
        raise ConfigError(f"{source}: holds no requests")
    whole = sum(weight for _, weight in kept)
    found = Contexts(tuple(x for x, _ in kept), tuple(w / whole for _, w in kept), 0.0, source, n)
    tokens = found.mean * ANSWER if answer is None else answer
    if not 0 < tokens <= found.mean:
        raise ConfigError(
            f"an answer of {tokens:g} tokens: must be above 0 and within the mean request, {found.mean:g}"
        )
    return Contexts(found.lengths, found.shares, tokens, source, n)


def of_flag(text: str, answer: float | None) -> Contexts:
    """`8192`, or `1024:70,8192:25,32768:5` with the weight of each."""
    pairs = []
    for part in text.split(","):
        length, colon, weight = part.strip().partition(":")
        pairs.append((_length(length, "--context"), _weight(weight, "--context") if colon else 1.0))
    return weighted(pairs, answer, f"--context {text}")


def of_file(file: Path, answer: float | None) -> Contexts:
    """A histogram: lines `tokens,requests`; `#` begins a comment, a first line of words is a header."""
    try:
        with file.open("rb") as opened:
            raw = opened.read(MOST_BYTES + 1)
        rows = list(csv.reader(raw.decode("utf-8").splitlines()))
    except OSError as error:
        raise ConfigError(f"--histogram {file}: cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"--histogram {file}: is not a CSV file in UTF-8: {error}") from None
    if len(raw) > MOST_BYTES or len(rows) > MOST_ROWS:
        raise ConfigError(f"--histogram {file}: more than {MOST_ROWS:,} lines or {MOST_BYTES >> 20} MiB")
    pairs = []
    for line, row in enumerate(rows, 1):
        cells = [cell.strip() for cell in row]
        if not any(cells) or cells[0].startswith("#") or (line == 1 and not cells[0][:1].isdigit()):
            continue
        where = f"{file}:{line}"
        if len(cells) != 2:
            raise ConfigError(f"{where}: {len(cells)} columns; write tokens,requests")
        pairs.append((_length(cells[0], where), _weight(cells[1], where)))
    return weighted(pairs, answer, str(file), round(sum(weight for _, weight in pairs)))


def sums(first: Sequence[tuple[int, float]], second: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """The lengths of two independent parts, put together."""
    return [(a + b, p * q) for a, p in first for b, q in second if p and q]


def _length(text: str, where: str) -> int:
    if not text.isdecimal() or not 0 < int(text[:12]) <= 10**9:
        raise ConfigError(f"{where}: {text!r} is no number of tokens; expected a whole number from 1 to 10^9")
    return int(text)


def _weight(text: str, where: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = -1.0
    if not 0 <= weight < 1e15:
        raise ConfigError(f"{where}: {text!r} is no weight; expected a number from 0")
    return weight
