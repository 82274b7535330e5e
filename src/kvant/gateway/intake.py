"""From the bytes of a request to a `Call`: refused early where it is too large, too long or not clean."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from starlette.datastructures import Headers

from kvant.gateway import outgoing, prompt
from kvant.gateway.call import Call, Priority
from kvant.gateway.settings import Limits
from kvant.http import envelope
from kvant.http.body import Refused

ANSWER_TOKENS = 256
"""Reserved for an answer whose request does not say how long it may be."""
LENGTHS = ("max_tokens", "max_completion_tokens")
CHARACTERS_PER_TOKEN = 4
"""What a token holds, roughly: for reserving, never for charging."""


def check(parsed: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
    """The request within the limits, its answer bounded; `Refused` names the limit that it is over."""
    for name in LENGTHS:
        if parsed.get(name) is not None and type(parsed[name]) is not int:
            # Engines would take "1000" and 1e3 for numbers, and our limits would not see them.
            raise Refused(envelope.bad_request(f"{name} must be a whole number", name))
    most, characters = limits.prompt_characters, prompt.length(parsed)
    if most is not None and characters > most:
        text = f"the prompt has {characters} characters, over the limit of {most}"
        raise Refused(envelope.bad_request(text))
    bounded = dict(parsed)
    if limits.answer_tokens is not None:
        asked = _asked(parsed)
        if asked is None:
            bounded["max_tokens"] = limits.answer_tokens
        elif asked > limits.answer_tokens:
            text = f"{asked} tokens are asked for, over the limit of {limits.answer_tokens}"
            raise Refused(envelope.bad_request(text, "max_tokens"))
    return bounded


def estimate(parsed: Mapping[str, Any]) -> int:
    """Tokens that the request may take, prompt and answer."""
    asked = _asked(parsed)
    return prompt.length(parsed) // CHARACTERS_PER_TOKEN + max(0, ANSWER_TOKENS if asked is None else asked)


def call(call_id: str, path: str, parsed: Mapping[str, Any], headers: Headers, key: str) -> Call:
    """The call as the arm will see it."""
    return Call(
        id=call_id,
        path=path,
        body=outgoing.body(parsed, key),
        key=key,
        sticky=prompt.conversation(parsed, key, headers.get("x-session-id", "")),
        priority=priority(headers.get("x-request-priority")),
        at=time.monotonic(),
    )


def priority(header: str | None) -> Priority:
    """Of x-request-priority: `interactive`, `batch`, or a number, of which those above 0 can wait."""
    text = "0" if header is None else header.strip().lower()
    if text in ("interactive", "batch"):
        return "batch" if text == "batch" else "interactive"
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 10):
        raise Refused(envelope.bad_request("x-request-priority must be interactive, batch or a number"))
    return "batch" if int(text) > 0 else "interactive"


def _asked(parsed: Mapping[str, Any]) -> int | None:
    asked = [parsed.get(name) for name in LENGTHS]
    return max((one for one in asked if type(one) is int), default=None)
