"""What is watched and compared, and how much of it: one section of gateway.yaml each."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from kvant.config.section import File, Section

Share = Annotated[float, Field(ge=0, le=1)]
Seconds = Annotated[float, Field(gt=0, le=86_400)]
Count = Annotated[int, Field(ge=1, le=1_000_000_000)]


class Breaker(Section):
    """When an answer is taken from the candidate, and when all calls are."""

    watch: bool = Field(
        default=True, description="Read the candidate's answers as they are written and stop abnormal ones."
    )
    window: Seconds = Field(default=60.0, description="Seconds over which rates are taken.")
    minimum: Count = Field(default=20, description="Answers in the window before a rate counts.")
    errors: Share = Field(default=0.25, description="Share of failed answers that opens the breaker.")
    trips: Share = Field(
        default=0.05,
        description="Share of abnormal answers, above the baseline's own, that opens the breaker.",
    )
    retry: Seconds = Field(default=10.0, description="Seconds until it is first tried again; they double.")
    longest_retry: Seconds = Field(default=600.0, description="Most seconds between tries.")
    probes: Count = Field(default=5, description="Good answers in a row that close it.")


class Shadow(Section):
    """Copies of the baseline's calls, sent to the candidate; their answers reach nobody."""

    share: Share = Field(default=0.1, description="Share of calls to copy.")
    in_flight: Count = Field(default=4, description="Most copies at a time.")
    tokens_per_minute: Count = Field(
        default=60_000, description="Most tokens, prompts and answers, of copies."
    )
    max_bytes: Count = Field(default=262_144, description="Characters of the largest call that is copied.")
    max_tokens: Count = Field(default=1024, description="Longest answer that is let written to a copy.")
    watermark: Share = Field(
        default=0.7, description="Load of the candidate above which copies are neither sent nor finished."
    )
    seconds: Seconds = Field(default=120.0, description="Longest that a copy may take.")
    priority: int | None = Field(
        default=None,
        ge=0,
        le=1_000_000,
        description="vLLM's `priority` of copies (higher is later); for engines started with "
        "--scheduling-policy priority.",
    )


class Comparing(Section):
    """Calls whose answers both arms score, token by token."""

    share: Share = Field(default=0.05, description="Share of calls to compare.")
    in_flight: Count = Field(default=2, description="Most comparisons at a time.")
    per_minute: Count = Field(default=30, description="Most comparisons a minute.")
    prompt: int = Field(
        default=1024, ge=8, le=1_000_000, description="Tokens of the prompt that are read before an answer."
    )
    answer: Count = Field(default=256, description="Tokens of an answer that are scored.")
    top: int = Field(
        default=20, ge=1, le=100, description="Log-probabilities asked for; vLLM's --max-logprobs allows 20."
    )
    watermark: Share = Field(default=0.8, description="Load of either arm above which nothing is compared.")
    seconds: Seconds = Field(default=120.0, description="Longest that an arm may take.")
    priority: int | None = Field(
        default=None, ge=0, le=1_000_000, description="As of shadow, for what is asked to compare."
    )
    examples: int = Field(
        default=20,
        ge=0,
        le=1000,
        description="Newest calls kept to show where the arms part; only where prompts may be logged.",
    )


class Patrol(Section):
    """After the release: does the candidate still answer as it did when it was promoted?"""

    window: Count = Field(default=50, description="Newest comparisons that make the present level.")
    raised: float = Field(
        default=2.0, gt=1, le=1000, description="Multiple of the level at promotion that raises drift."
    )
    cleared: float = Field(
        default=1.5, ge=1, le=1000, description="Multiple at which it is cleared; not above `raised`."
    )
    golden: File | None = Field(
        default=None,
        description="JSONL of prompts with recorded `answers`, asked where no baseline runs; null for none.",
    )
    every: Seconds = Field(default=300.0, description="Seconds between two golden prompts.")
