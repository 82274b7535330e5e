"""Live traffic: the lengths that a running vLLM or Kvant has counted, from its /metrics or a copy of it.

vLLM counts prompts and answers of finished requests in two histograms and does not say which belong together:
they are taken as independent. In every bucket, requests count as lying at the same fraction of the way to its
upper end, chosen so that the mean is the measured one; the last bucket ends at twice the one before, or at
the longest that is served.
"""

from __future__ import annotations

from pathlib import Path

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from kvant.config import address
from kvant.errors import ConfigError
from kvant.plan.contexts import Contexts, sums, weighted
from kvant.plan.text import counted

PROMPT, ANSWER = "vllm:request_prompt_tokens", "vllm:request_generation_tokens"
MOST_BYTES = 16 * 1024 * 1024
SECONDS = 10.0
FEWEST = 30
"""Requests below which their lengths are an anecdote: a start asks some of its own."""

Shares = list[tuple[int, float]]


def of_metrics(place: str, longest: int) -> Contexts:
    """From a URL or a saved file; `longest` is the model's maximum."""
    text = _get(place) if address.is_url(place) else _read(Path(place))
    try:
        families = {family.name: family for family in text_string_to_metric_families(text)}
    except ValueError as error:
        raise ConfigError(f"--metrics {place}: is not Prometheus text: {error}") from None
    (prompts, _, number), (answers, answer, _) = (
        _shares(families, n, place, longest) for n in (PROMPT, ANSWER)
    )
    if number < FEWEST:
        raise ConfigError(
            f"--metrics {place}: {counted(number)} so far, which may be no more than a warm-up: lengths are "
            f"taken from {FEWEST} or more; let real traffic run first, or give --context or --histogram"
        )
    both = [(min(length, longest), share) for length, share in sums(prompts, answers)]
    return weighted(both, answer, f"live traffic, {place}", number)


def _shares(families: dict[str, Metric], name: str, place: str, longest: int) -> tuple[Shares, float, int]:
    """(tokens, requests) of one histogram, all its series together; its mean; its number of requests."""
    below: dict[float, float] = {}
    total = number = 0.0
    for sample in families[name].samples if name in families else ():
        if sample.name == f"{name}_bucket":
            edge = float(sample.labels["le"])
            below[edge] = below.get(edge, 0.0) + sample.value
        elif sample.name == f"{name}_sum":
            total += sample.value
        elif sample.name == f"{name}_count":
            number += sample.value
    if not below or number < 1:
        what = "has no requests yet" if below else "is not there: is this vLLM's /metrics?"
        raise ConfigError(f"--metrics {place}: {name} {what}")
    ends: list[tuple[float, float, float]] = []
    seen = low = 0.0
    for edge in sorted(below):
        count, seen = below[edge] - seen, below[edge]
        if count < 0:
            raise ConfigError(
                f"--metrics {place}: {name} counts fewer up to {edge:g} than before: is damaged"
            )
        high = edge if edge != float("inf") else max(low, min(2 * low, longest))
        ends.append((low, high, count))
        low = high
    mean = total / number
    lowest = sum(low * count for low, _, count in ends) / number
    width = sum((high - low) * count for low, high, count in ends) / number
    part = min(max((mean - lowest) / width, 0.0), 1.0) if width else 1.0
    found = [(max(1, round(low + part * (high - low))), count) for low, high, count in ends if count]
    return found, mean, int(number)


def _get(url: str) -> str:
    import httpx

    try:
        with httpx.stream("GET", url, timeout=SECONDS) as response:
            response.raise_for_status()
            raw = b""
            for part in response.iter_bytes():
                raw += part
                if len(raw) > MOST_BYTES:
                    raise ConfigError(f"--metrics {url}: answers more than {MOST_BYTES >> 20} MiB")
    except httpx.HTTPError as error:
        raise ConfigError(f"--metrics {url}: {error}; is the service up, and is this its /metrics?") from None
    except httpx.InvalidURL as error:
        raise ConfigError(f"--metrics {url}: {error}") from None
    return raw.decode("utf-8", "replace")


def _read(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            raw = opened.read(MOST_BYTES + 1)
    except OSError as error:
        close = address.meant(str(file))
        hint = f"; did you mean {close}?" if close else ""
        raise ConfigError(f"--metrics {file}: cannot be read: {error.strerror}{hint}") from None
    if len(raw) > MOST_BYTES:
        raise ConfigError(f"--metrics {file}: larger than {MOST_BYTES >> 20} MiB")
    return raw.decode("utf-8", "replace")
