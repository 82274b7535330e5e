"""The usage of an answer that two arms wrote."""

from __future__ import annotations

from typing import Any


def recount(usage: dict[str, Any], tokens: int) -> None:
    """The usage of a continuation as that of the whole answer: what was sent was no prompt."""
    usage["prompt_tokens"] = max(0, usage.get("prompt_tokens", 0) - tokens)
    usage["completion_tokens"] = usage.get("completion_tokens", 0) + tokens
