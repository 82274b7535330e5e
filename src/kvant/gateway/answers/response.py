"""An arm's JSON answer to a call -> `Answer`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvant.errors import EngineError
from kvant.gateway.answers.finished import LONGEST, Answer


def answer(response: Mapping[str, Any], arm: str) -> Answer:
    """The first choice; `EngineError` where the answer has not the shape of one."""
    try:
        choice = response["choices"][0]
        message = choice.get("message") or {}
        text = message.get("content") if "message" in choice else choice["text"]
        calls = message.get("tool_calls") or ()
        tools = tuple(str(one["function"]["arguments"]) for one in calls)
        usage = response.get("usage") or {}
        tokens, used = (int(usage.get(name) or 0) for name in ("completion_tokens", "total_tokens"))
        finish = str(choice.get("finish_reason") or "")
        return Answer(str(text or "")[:LONGEST], finish, tokens, tools, used)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise EngineError(f"arm {arm}: its answer has no choice of text ({type(error).__name__})") from None
