"""Going on with an answer on another arm, from where the client's text ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def resumed(body: Mapping[str, Any], sent: str, tokens: int) -> dict[str, Any] | None:
    """The request for what follows the text and tokens sent already; None where none can be made."""
    if not sent:
        return dict(body)
    if body.get("n") not in (None, 1) or body.get("echo"):
        return None
    rest = dict(body)
    for name in ("max_tokens", "max_completion_tokens", "min_tokens"):
        if isinstance(rest.get(name), int):
            rest[name] -= tokens
            if rest[name] < 1:
                if name != "min_tokens":
                    return None
                del rest[name]
    if isinstance(body.get("messages"), list):
        said = {"role": "assistant", "content": sent}
        return rest | {
            "messages": [*body["messages"], said],
            "add_generation_prompt": False,
            "continue_final_message": True,
        }
    if isinstance(body.get("prompt"), str):
        return rest | {"prompt": body["prompt"] + sent}
    return None


def recount(usage: dict[str, Any], tokens: int) -> None:
    """The usage of a continuation as that of the whole answer: what was sent was no prompt."""
    usage["prompt_tokens"] = max(0, usage.get("prompt_tokens", 0) - tokens)
    usage["completion_tokens"] = usage.get("completion_tokens", 0) + tokens
