"""What the gate asks and what it forgives: one YAML file, read as strictly as the service's own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from kvant.config.docs import dump
from kvant.config.section import File, Section
from kvant.config.words import near, show
from kvant.errors import ConfigError
from kvant.recipes import strict

Suite = Literal["fidelity", "needle", "golden", "longqa", "summary", "code", "long"]
NAMES: tuple[Suite, ...] = ("fidelity", "needle", "golden", "longqa", "summary", "code", "long")

Share = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=1, le=100_000)]
Tokens = Annotated[int, Field(ge=64, le=10_000_000)]
Top = Annotated[int, Field(ge=1, le=100)]


def _distinct(found: tuple[object, ...]) -> tuple[object, ...]:
    if not found:
        raise PydanticCustomError("empty", "names nothing")
    if len(set(found)) != len(found):
        raise PydanticCustomError("twice", "names something twice")
    return found


class Fidelity(Section):
    """Given text, teacher-forced: KL and top-1 of every position, perplexity."""

    texts: Count = Field(default=4, description="Passages, prose and code in turns.")
    tokens: Tokens = Field(default=2048, description="Length of a passage; its first 17/32 are not scored.")
    top: Top = Field(default=20, description="Log-probabilities asked for at each position.")
    kl: Positive = Field(default=0.01, description="Most KL to the baseline, nats a position.")
    top1: Share = Field(default=0.06, description="Most positions whose likeliest token is another.")
    perplexity: Positive = Field(default=0.03, description="Most that perplexity may grow, as a share.")


class Needle(Section):
    """A number hidden in a long text, asked for at its end."""

    lengths: Annotated[tuple[Tokens, ...], AfterValidator(_distinct)] = Field(
        default=(1024, 2048, 4096), strict=False, description="Lengths of the text, tokens."
    )
    depths: Annotated[tuple[Share, ...], AfterValidator(_distinct)] = Field(
        default=(0.0, 0.25, 0.5, 0.75, 1.0), strict=False, description="Where it is hidden; 0 is the start."
    )
    keys: Annotated[tuple[Count, ...], AfterValidator(_distinct)] = Field(
        default=(1, 2), strict=False, description="Numbers hidden, each under a key of its own."
    )
    trials: Count = Field(default=3, description="Texts for each length, depth and number of keys.")
    loss: Share = Field(default=0.10, description="Most that the share of found needles may fall.")


class Golden(Section):
    """Recorded prompts: greedy answers, compared token by token as far as both read the same text."""

    file: File | None = Field(default=None, description="JSONL of prompts; null takes the shipped ones.")
    prompts: Count = Field(default=24, description="Prompts taken, drawn with the seed where there are more.")
    tokens: Count = Field(default=48, description="Tokens generated for each.")
    context: Tokens = Field(default=768, description="Tokens of text before a shipped prompt.")
    top: Top = Field(default=20, description="Log-probabilities asked for at each token.")
    kl: Positive = Field(default=0.02, description="Most KL to the baseline, nats a token.")
    tie: Positive = Field(default=0.7, description="Nats up to which two tokens count as equally likely.")
    parted: Share = Field(default=0.25, description="Most answers that part elsewhere than at such a tie.")
    loss: Share = Field(default=0.10, description="Most that the share of expected answers may fall.")


class Longqa(Section):
    """A question about one of many records spread over a long document."""

    tokens: Tokens = Field(default=2048, description="Length of the document.")
    questions: Count = Field(default=48, description="Documents, with one question each.")
    loss: Share = Field(default=0.12, description="Most that the share of right answers may fall.")
    file: File | None = Field(default=None, description="Questions of your own: JSONL, LongBench or RULER.")


class Summary(Section):
    """A long document summed up; scored by the words it shares with a reference."""

    tokens: Tokens = Field(default=2048, description="Length of the document.")
    documents: Count = Field(default=32, description="Documents.")
    answer: Count = Field(default=96, description="Tokens of a summary.")
    loss: Positive = Field(default=0.05, description="Most that the mean score (0 to 1) may fall.")
    file: File | None = Field(default=None, description="Documents of your own: JSONL or LongBench.")


class Code(Section):
    """Functions completed and run, and functions of a long repository retrieved by name."""

    tokens: Tokens = Field(default=2048, description="Length of the source before the place to complete.")
    tasks: Count = Field(default=40, description="Half completed by pattern, half retrieved.")
    loss: Share = Field(default=0.12, description="Most that the share of right completions may fall.")
    seconds: Annotated[float, Field(gt=0, le=3600)] = Field(
        default=5.0, description="Time a completion may run."
    )


class Long(Section):
    """Long generations: repetition, early stop, change of language, tool calls that cannot be read."""

    prompts: Count = Field(default=24, description="Generations; every fourth is a log of tool calls.")
    tokens: Count = Field(default=1024, description="Tokens of each.")
    temperature: Positive = Field(default=0.8, description="Of the sampling; both arms draw with one seed.")
    repetition: Share = Field(default=0.15, description="Most that the share of repeated 4-grams may grow.")
    defects: Share = Field(default=0.25, description="Most that the share of sound texts may fall.")


class Settings(Section):
    """Everything `kvant gate` can be told by a file."""

    suites: Annotated[tuple[Suite, ...], AfterValidator(_distinct)] = Field(
        default=("fidelity", "needle", "golden"), strict=False, description="What is run, in this order."
    )
    seed: int = Field(default=0, ge=0, le=2**63 - 1, description="Chooses every text and number.")
    alpha: Annotated[float, Field(gt=0, lt=0.5)] = Field(
        default=0.05, description="One-sided error of every interval's ends."
    )
    looks: Annotated[int, Field(ge=1, le=20)] = Field(
        default=4,
        description="Times an inconclusive suite is asked, with new tasks each; alpha is split over them.",
    )
    concurrency: Count = Field(default=4, description="Requests in flight.")
    max_context: Tokens = Field(default=8192, description="Context of servers that the gate starts.")
    fidelity: Fidelity = Field(default_factory=Fidelity)
    needle: Needle = Field(default_factory=Needle)
    golden: Golden = Field(default_factory=Golden)
    longqa: Longqa = Field(default_factory=Longqa)
    summary: Summary = Field(default_factory=Summary)
    code: Code = Field(default_factory=Code)
    long: Long = Field(default_factory=Long)


def load(path: Path | None) -> Settings:
    """The settings in a file, all defaults without one; `ConfigError` names file, line and field."""
    return Settings() if path is None else strict.settings(path, Settings)


def override(settings: Settings, suites: str | None, seed: int | None) -> Settings:
    """The settings with what the command line says; `ConfigError` names what it says wrongly."""
    names = settings.suites if suites is None else tuple(part for part in suites.split(",") if part)
    for name in names:
        if name not in NAMES:
            close = near(name, NAMES)
            hint = f"did you mean {close}?" if close else f"there are {', '.join(NAMES)}"
            raise ConfigError(f"--suites: no suite is named {show(name)}; {hint}")
    if not names or len(set(names)) != len(names):
        raise ConfigError(f"--suites {suites}: names {'a suite twice' if names else 'none'}")
    if seed is not None and not 0 <= seed < 2**63:
        raise ConfigError(f"--seed {seed}: must be from 0 to 2^63 - 1")
    changes = {"suites": names, "seed": settings.seed if seed is None else seed}
    return settings.model_copy(update=changes)


def example() -> str:
    """A file with every field at its default."""
    return dump(Settings().model_dump(mode="json"))
