"""The copy of a call that a candidate may see: the same question, without anything that acts or is kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvant.gateway.answers import asked

LOW = {"x-request-priority": "batch"}
"""Headers of whatever the gateway asks for itself."""

KEPT_ELSEWHERE = ("store", "metadata", "user", "safety_identifier", "prompt_cache_key", "session_id",
                  "service_tier", "background", "web_search_options", "kv_transfer_params",
                  "ec_transfer_params")  # fmt: skip
"""Fields for what is kept or done outside the engine."""
WRAPPING = ("stream", "stream_options", "stream_interval", "request_id", "n", "best_of", "priority",
            "logprobs", "top_logprobs", "prompt_logprobs", "return_token_ids",
            "return_tokens_as_token_ids")  # fmt: skip
"""Fields for how the client wants its answer, not for what it asks."""
DROPPED = frozenset(KEPT_ELSEWHERE + WRAPPING)


def acts(body: Mapping[str, Any]) -> bool:
    """Whether answering has effects of its own: tools that a server runs. Without them it is another
    question, so such a call is not copied at all. Functions are run by clients, who never see a copy."""
    tools = body.get("tools")
    run = isinstance(tools, list) and any(
        not (isinstance(one, Mapping) and one.get("type", "function") == "function") for one in tools
    )
    return run or bool(body.get("web_search_options")) or body.get("background") is True


def copy(body: Mapping[str, Any], most: int, priority: int | None) -> dict[str, Any]:
    """The body to send: one answer, whole, of `most` tokens; its `cache_salt` stays."""
    found = {name: value for name, value in body.items() if name not in DROPPED}
    limit = asked.limit(body)
    name = "max_completion_tokens" if "max_completion_tokens" in body else "max_tokens"
    if limit is None or limit > most:
        found[name] = most
    # vLLM refuses limits that contradict each other.
    if type(found.get("min_tokens")) is int:
        found["min_tokens"] = min(found["min_tokens"], most)
    if priority is not None:
        found["priority"] = priority
    return found
