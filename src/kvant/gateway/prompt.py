"""The text of a request: how long it is, how it begins, which conversation it belongs to."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any


def pieces(body: Mapping[str, Any]) -> Iterator[str]:
    """The text of all messages, or of the prompt; a token id counts as a piece."""
    messages = body.get("messages")
    if isinstance(messages, list):
        for message in messages:
            yield from _message(message)
    else:
        yield from _prompt(body.get("prompt"))


def length(body: Mapping[str, Any]) -> int:
    """Characters of the prompt; token ids count four each, about what a token holds."""
    return sum(len(piece) for piece in pieces(body))


def beginning(body: Mapping[str, Any], characters: int) -> str:
    """So many first characters of the prompt."""
    found, room = [], characters
    for piece in pieces(body):
        if room <= 0:
            break
        found.append(piece[:room])
        room -= len(piece)
    return "".join(found)


def conversation(body: Mapping[str, Any], key: str, session: str) -> str:
    """The same text for every turn of a conversation: what the client calls it, or how it began."""
    named = session or next(
        (body[name] for name in ("prompt_cache_key", "user") if isinstance(body.get(name), str)), ""
    )
    digest = hashlib.blake2b(key.encode(errors="replace"), digest_size=16)
    for piece in [named] if named else _opening(body):
        digest.update(piece.encode(errors="replace"))
    return digest.hexdigest()


def _opening(body: Mapping[str, Any]) -> Iterator[str]:
    """Up to the first words of the user, which later turns repeat."""
    messages = body.get("messages")
    if not isinstance(messages, list):
        yield from _prompt(body.get("prompt"))
        return
    for message in messages:
        yield from _message(message)
        if isinstance(message, Mapping) and message.get("role") == "user":
            return


def _message(message: object) -> Iterator[str]:
    content = message.get("content") if isinstance(message, Mapping) else None
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for part in content:
            text = part.get("text") if isinstance(part, Mapping) else None
            if isinstance(text, str):
                yield text


def _prompt(prompt: object) -> Iterator[str]:
    if isinstance(prompt, str):
        yield prompt
    elif isinstance(prompt, list):
        for one in prompt:
            if isinstance(one, int):
                yield f"{one:<3} "
            else:
                yield from _prompt(one)
