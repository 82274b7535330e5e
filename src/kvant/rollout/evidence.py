"""What a rollout learns: how requests were served, and how the answers of both arms compare."""

from __future__ import annotations

from dataclasses import dataclass

BASELINE, CANDIDATE = "baseline", "candidate"


@dataclass(frozen=True)
class Serving:
    """One request that an arm answered, or was sent in shadow. Times in seconds."""

    arm: str
    at: float
    failed: bool = False
    """The arm's own fault: 5xx, a broken stream, a timeout; not a client that left or asked nonsense."""
    first_token: float | None = None
    per_token: float | None = None
    """Mean gap between later tokens."""
    degenerate: bool = False
    """Repetition, gibberish, runaway length, broken JSON or tool calls."""
    shadow: bool = False


@dataclass(frozen=True)
class Comparison:
    """One request that both arms answered or scored."""

    at: float
    divergence: float | None
    """Mean over positions of KL(baseline || candidate), nats; None where log-probabilities cannot be had."""
    agreement: float | None
    """Share of positions where both arms expect the same token, 0 to 1."""
    positions: int
    degenerate_baseline: bool = False
    degenerate_candidate: bool = False
    id: str = ""
    """Of the request, for the examples; never its text."""
