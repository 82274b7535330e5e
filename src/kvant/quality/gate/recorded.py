"""Prompts from disk: JSONL of one's own, and the usual public files.

own          {"prompt": ...} or {"messages": [...]}, with "max_tokens" and "answers" where wanted
OpenAI log   {"body": {"messages" or "prompt": ...}}, as a batch file has it
LongBench    {"input": ..., "context": ..., "answers": [...]}
RULER, NIAH  {"input": ..., "outputs": [...]}, with "answer_prefix" where there is one
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from kvant.errors import ConfigError

One = TypeVar("One")

MAX_BYTES = 1 << 30
MAX_LINE = 64 << 20


@dataclass(frozen=True)
class Prompt:
    """One prompt, a text or a conversation; `expected` are answers any of which is right."""

    prompt: str = ""
    messages: tuple[Mapping[str, str], ...] = ()
    tokens: int | None = None
    expected: tuple[str, ...] = ()


def read(file: Path) -> list[Prompt]:
    """All prompts of a file; `ConfigError` names the line that is none."""
    try:
        if file.stat().st_size > MAX_BYTES:
            raise ConfigError(f"{file}: larger than {MAX_BYTES >> 20} MiB; split it")
        found = list(_prompts(file))
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from None
    if not found:
        raise ConfigError(f"{file}: holds no prompt")
    return found


def drawn(rng: random.Random, given: Sequence[One], size: int) -> Iterator[list[One]]:
    """All of them in an order of the seed, so many at a time."""
    order = rng.sample(given, len(given))
    yield from (order[start : start + size] for start in range(0, len(order), size))


def _prompts(file: Path) -> Iterator[Prompt]:
    with file.open("rb") as lines:
        for number, line in enumerate(iter(lambda: lines.readline(MAX_LINE + 1), b""), 1):
            try:
                if found := _prompt(line):
                    yield found
            except UnicodeDecodeError as error:
                raise ConfigError(f"{file}:{number}: byte 0x{line[error.start]:02x} is not UTF-8") from None
            except (ValueError, RecursionError) as error:
                raise ConfigError(f"{file}:{number}: {error}") from None


def _prompt(line: bytes) -> Prompt | None:
    """Of one line, None of a blank one."""
    if len(line) > MAX_LINE:
        raise ValueError(f"is longer than {MAX_LINE >> 20} MiB")
    text = line.decode("utf-8-sig")
    return of(json.loads(text)) if text.strip() else None


def of(record: Any) -> Prompt:
    """One record in any of the formats; `ValueError` says what it lacks."""
    if not isinstance(record, dict):
        raise ValueError("is not a JSON object")
    if isinstance(record.get("body"), dict):
        record = record["body"]
    tokens = record.get("max_tokens", record.get("max_completion_tokens"))
    if tokens is not None and (type(tokens) is not int or tokens < 1):
        raise ValueError(f"max_tokens: {tokens!r} is not a positive integer")
    expected = _expected(record)
    if "messages" in record:
        return Prompt(messages=_messages(record["messages"]), tokens=tokens, expected=expected)
    for text in (record.get("prompt"), _longbench(record), _ruler(record)):
        if isinstance(text, str) and text:
            return Prompt(text, tokens=tokens, expected=expected)
    raise ValueError("has neither prompt, nor messages, nor context and input (LongBench), nor input (RULER)")


def _expected(record: Mapping[str, Any]) -> tuple[str, ...]:
    """Answers any of which is right; one that is blank would be found in every text."""
    given = next((record[name] for name in ("answers", "outputs", "answer") if name in record), None)
    answers = [] if given is None else given if isinstance(given, list) else [given]
    for one in answers:
        if type(one) not in (str, int, float) or not str(one).strip():
            raise ValueError(f"answers: {one!r} is not a text that an answer can be held against")
    return tuple(map(str, answers))


def _messages(given: Any) -> tuple[Mapping[str, str], ...]:
    whole = isinstance(given, list) and all(isinstance(one, dict) and "role" in one for one in given)
    if not given or not whole:
        raise ValueError('messages: is not a list of {"role": ..., "content": ...}')
    return tuple(given)


def _longbench(record: Mapping[str, Any]) -> str | None:
    if not isinstance(record.get("context"), str):
        return None
    question = str(record.get("input", ""))
    return f"{record['context']}\n\n{f'Question: {question}' if question else ''}\nAnswer:".rstrip(" ")


def _ruler(record: Mapping[str, Any]) -> str | None:
    text = record.get("input")
    return f"{text}{record.get('answer_prefix', '')}" if isinstance(text, str) else None
