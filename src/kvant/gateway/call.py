"""One request on its way through the gateway, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Priority = Literal["interactive", "batch"]


@dataclass(frozen=True)
class Call:
    """An admitted request. `body` is what the arm will be sent, after the gateway's own changes."""

    id: str
    path: str
    """Of OpenAI's API, as `/v1/chat/completions`."""
    body: Mapping[str, Any] = field(repr=False)
    key: str
    """Id of the API key, never the key; empty where none is asked for."""
    sticky: str
    """What assignment to an arm goes by: the same text, the same arm as long as weights stand."""
    priority: Priority = "interactive"
    at: float = 0.0
    """Seconds on the gateway's monotonic clock."""

    @property
    def streams(self) -> bool:
        return self.body.get("stream") is True

    @property
    def generates(self) -> bool:
        """Whether an answer of text is asked for, as opposed to embeddings, models or tokens."""
        return self.path in ("/v1/chat/completions", "/v1/completions")


@dataclass(frozen=True)
class Served:
    """How a call ended. Times in seconds; `text` is bounded, stays in memory and is never logged."""

    call: Call
    arm: str
    replica: str
    status: int
    """HTTP status that the client got; 499 where it hung up."""
    seconds: float
    first: float | None = None
    """To the first token; None where none came or the answer was not streamed."""
    gaps: tuple[float, ...] = ()
    """Between later tokens."""
    prompt_tokens: int = 0
    tokens: int = 0
    """As the engine counts them; as many as were sent where it was cut off before it said so."""
    finish: str = ""
    text: str = field(default="", repr=False)
    error: str = ""
    """Why it failed, a word from a fixed set (timeout, unreachable, broken, ...); empty if it did not."""
    tripped: str = ""
    """The sign of degeneration that the breaker stopped it for; empty if none."""
    absent: bool = False
    """Whether it was known, as the arm was asked, that no replica of it is up."""
    tools: tuple[str, ...] = field(default=(), repr=False)
    """Arguments of the tool calls in the answer, as JSON text."""
