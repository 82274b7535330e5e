"""What a request asks for, read from its body: its text, whether JSON is wanted, what it carries."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

LONGEST = 65_536
"""Characters of a prompt that are looked at, its newest."""


def text(body: Mapping[str, Any]) -> str:
    """The prompt's newest `LONGEST` characters; empty where it is token ids."""
    parts: list[str] = []
    size = 0
    for part in _backwards(body):
        parts.append(part)
        size += len(part)
        if size >= LONGEST:
            break
    return "\n".join(reversed(parts))[-LONGEST:]


def _backwards(body: Mapping[str, Any]) -> Iterator[str]:
    for message in reversed(_messages(body)):
        content = message.get("content")
        if isinstance(content, str):
            yield content
        elif isinstance(content, list):
            for part in reversed(content):
                if isinstance(part, Mapping) and isinstance(part.get("text"), str):
                    yield part["text"]
    prompt = body.get("prompt")
    if isinstance(prompt, list):
        prompt = prompt[0] if len(prompt) == 1 else None
    if isinstance(prompt, str):
        yield prompt


def _messages(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = body.get("messages")
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def wants_json(body: Mapping[str, Any]) -> bool:
    """Whether the whole answer must be JSON: `response_format`, or vLLM's own word for it."""
    wanted = body.get("response_format")
    if isinstance(wanted, Mapping) and wanted.get("type") in ("json_object", "json_schema"):
        return True
    structured = body.get("structured_outputs")
    return isinstance(structured, Mapping) and bool(structured.get("json") or structured.get("json_object"))


def structured(body: Mapping[str, Any]) -> bool:
    """Whether a grammar steers the answer from its first character on."""
    wanted = body.get("response_format")
    plain = wanted is None or (isinstance(wanted, Mapping) and wanted.get("type") == "text")
    return not plain or bool(body.get("structured_outputs"))


def carries_media(body: Mapping[str, Any]) -> bool:
    """Whether a message holds anything but text."""
    return any(
        not (isinstance(part, Mapping) and part.get("type") == "text")
        for message in _messages(body)
        if isinstance(message.get("content"), list)
        for part in message["content"]
    )


def choices(body: Mapping[str, Any]) -> int:
    """Answers asked for: prompts times `n`."""
    prompt = body.get("prompt")
    several = isinstance(prompt, list) and bool(prompt) and isinstance(prompt[0], str | list)
    n = body.get("n") or 1
    return (len(prompt) if several and isinstance(prompt, list) else 1) * (n if isinstance(n, int) else 1)


def limit(body: Mapping[str, Any]) -> int | None:
    """Most tokens of the answer, as asked for."""
    for name in ("max_completion_tokens", "max_tokens"):
        if type(body.get(name)) is int:
            return int(body[name])
    return None


def size(value: Any, most: int) -> int:
    """Characters of all text in a body, roughly its bytes; stops counting beyond `most`."""
    total, waiting = 0, [value]
    while waiting and total <= most:
        one = waiting.pop()
        if isinstance(one, str):
            total += len(one)
        elif isinstance(one, Mapping):
            waiting.extend(one.keys())
            waiting.extend(one.values())
        elif isinstance(one, list):
            total += len(one)
            waiting.extend(one[: most + 1])
        else:
            total += 4
    return total


def is_object(text: str) -> bool:
    """Whether a text is one JSON object."""
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
