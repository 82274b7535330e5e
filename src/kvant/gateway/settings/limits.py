"""`limits`, `timeouts`, `scheduling` and `routing`: how much, how long, in which order and where."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from kvant.config.section import Section

Limit = Annotated[int, Field(ge=1, le=1_000_000_000)] | None
Seconds = Annotated[float, Field(gt=0, le=604_800)]
Share = Annotated[float, Field(gt=0, le=1)]


class Limits(Section):
    """How much is let in. Those of one key hold for every key that has none of its own."""

    body_bytes: int = Field(default=8 << 20, ge=1024, le=1 << 30, description="Largest request body.")
    prompt_characters: Limit = Field(
        default=None, description="Longest prompt, all messages together; null leaves it to the engine."
    )
    answer_tokens: Limit = Field(default=None, description="Most tokens a request may ask for.")
    requests_per_minute: Limit = Field(default=None, description="Of all clients together.")
    tokens_per_minute: Limit = Field(default=None, description="Prompt and answer, of all clients together.")
    concurrency: int = Field(
        default=1024, ge=1, le=1_000_000, description="Requests inside the gateway, waiting ones included."
    )
    key_requests_per_minute: Limit = Field(default=None, description="Of one key.")
    key_tokens_per_minute: Limit = Field(default=None, description="Prompt and answer, of one key.")
    key_concurrency: Limit = Field(default=None, description="Requests of one key at a time.")


class Timeouts(Section):
    """How long is waited, in seconds."""

    connect: Seconds = Field(default=2.0, description="For an arm to take the connection.")
    first_token: Seconds = Field(default=120.0, description="For the first token of a stream.")
    between_tokens: Seconds = Field(default=30.0, description="From one token of a stream to the next.")
    client: Seconds = Field(default=60.0, description="For the client to take what it is sent.")
    total: Seconds = Field(default=600.0, description="For the whole answer.")


class Scheduling(Section):
    """How many requests an arm gets at a time, and who waits."""

    max_concurrency: int = Field(
        default=256, ge=1, le=100_000, description="Most requests that one replica is sent at a time."
    )
    min_concurrency: int = Field(
        default=4, ge=1, le=100_000, description="As many as a slow or full replica still gets."
    )
    queue_interactive: int = Field(
        default=256, ge=0, le=100_000, description="Interactive requests that wait."
    )
    queue_batch: int = Field(default=256, ge=0, le=100_000, description="Batch requests that wait.")
    queue_seconds: Seconds = Field(default=30.0, description="Longest wait; then 503 with Retry-After.")
    per_token_seconds: Seconds | None = Field(
        default=None,
        description="Time between tokens over which fewer run at a time; null watches memory alone.",
    )
    kv_watermark: Share = Field(
        default=0.95, description="Share of KV memory in use over which fewer requests run at a time."
    )
    poll_seconds: Seconds = Field(default=1.0, description="From one look at the arms' /metrics to the next.")


class Routing(Section):
    """Which replica of an arm answers."""

    prefix_characters: int = Field(
        default=1024,
        ge=0,
        le=1 << 20,
        description="Prompts alike in so many first characters go to one replica; 0 turns it off.",
    )
    prefix_slack: Share = Field(
        default=0.25, description="How much fuller than the emptiest that replica may be."
    )
    long_characters: Limit = Field(
        default=None, description="Longer prompts go to the arm's long_urls alone, and others elsewhere."
    )
