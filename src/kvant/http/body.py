"""Request bodies: read within limits, and refused early when they are not clean JSON.

vLLM would accept NaN, and answer some of these with its own parser's words; a strict look here keeps
them from the engine.
"""

from __future__ import annotations

import asyncio
import json
import math
from typing import Any, NoReturn

from starlette.datastructures import Headers
from starlette.types import Receive

from kvant.http import envelope
from kvant.http.envelope import Refusal

MAX_BYTES = 8 << 20
MAX_SECONDS = 30.0
MAX_CHOICES = 128
MAX_SEQUENCES = 1024
"""Largest `n` (and `best_of`), as at OpenAI: one small request must not become a million sequences."""


class Refused(Exception):
    """A request is not let in."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class Gone(Exception):
    """The client hung up while sending."""


async def read(headers: Headers, receive: Receive, limit: int = MAX_BYTES) -> bytes:
    """The whole body; raises `Refused` over `limit` or `MAX_SECONDS`, `Gone` when the client left."""
    if "content-length" in headers and "transfer-encoding" in headers:
        # A proxy before us may have read another body, and taken our next request for the rest of it.
        raise Refused(envelope.two_lengths())
    declared = headers.get("content-length", "0")
    if declared.isdecimal() and (len(declared) > 18 or int(declared) > limit):
        raise Refused(envelope.too_large(limit))
    try:
        return await asyncio.wait_for(_collect(receive, limit), MAX_SECONDS)
    except asyncio.TimeoutError:
        raise Refused(envelope.slow_body(MAX_SECONDS)) from None


async def _collect(receive: Receive, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Gone
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > limit:
            raise Refused(envelope.too_large(limit))
        if not message.get("more_body"):
            return b"".join(parts)


def check(body: bytes) -> dict[str, Any]:
    """The body as JSON; `Refused` unless it is an object of Unicode, finite numbers and sane counts."""
    try:
        text = body.decode("utf-8")
        parsed = json.loads(text, parse_constant=_not_finite, parse_float=_finite)
    except UnicodeDecodeError as error:
        raise Refused(envelope.bad_request(f"the body is not UTF-8 at byte {error.start}")) from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise Refused(envelope.bad_request(f"the body is not JSON: {error.msg} at {place}")) from None
    except RecursionError:
        raise Refused(envelope.bad_request("the body is nested too deeply")) from None
    except ValueError as error:  # ours, or an integer of thousands of digits
        message = str(error) if isinstance(error, _NumberError) else "a number in the body is too long"
        raise Refused(envelope.bad_request(message)) from None
    if not isinstance(parsed, dict):
        raise Refused(envelope.bad_request(f"the body must be a JSON object, not {_kind(parsed)}"))
    if "\\ud" in text or "\\uD" in text:
        _whole_characters(parsed)
    _bounded(parsed)
    return parsed


def _bounded(parsed: dict[str, Any]) -> None:
    # One small request must not become a million sequences.
    prompts = parsed.get("prompt")
    sequences = 1
    if isinstance(prompts, list) and prompts and isinstance(prompts[0], str | list):
        sequences = len(prompts)
    for name in ("n", "best_of"):
        count = parsed.get(name)
        if count is None:
            continue
        if type(count) is not int:
            raise Refused(envelope.bad_request(f"{name} must be a whole number", name))
        if count > MAX_CHOICES:
            raise Refused(envelope.bad_request(f"{name} {count} is over the limit of {MAX_CHOICES}", name))
        if count * sequences > MAX_SEQUENCES:
            raise Refused(
                envelope.bad_request(
                    f"{sequences} prompts with {name} {count} are over {MAX_SEQUENCES}", name
                )
            )


def _whole_characters(parsed: Any) -> None:
    # Half a surrogate pair is a JSON escape but no character: the tokenizer cannot read it.
    try:
        json.dumps(parsed, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise Refused(envelope.bad_request("a string holds half a surrogate pair, no character")) from None


class _NumberError(ValueError):
    pass


def _not_finite(name: str) -> NoReturn:
    raise _NumberError(f"{name} is not JSON: numbers must be finite")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise _NumberError("a number in the body is out of range: numbers must be finite")
    return number


def _kind(value: Any) -> str:
    return {list: "a list", str: "a string", bool: "a boolean", type(None): "null"}.get(
        type(value), "a number"
    )
