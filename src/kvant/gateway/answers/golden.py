"""Golden prompts: asked of the baseline while there is one, and of the candidate ever after.

The file is JSONL as the gate reads it (`kvant.quality.gate.recorded`): a prompt or messages, and `answers`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kvant.errors import ConfigError, EngineError
from kvant.gateway.answers import mirror, response
from kvant.gateway.answers.compare import Apart, agreed
from kvant.gateway.roles import Asker
from kvant.quality.gate import recorded
from kvant.quality.gate.recorded import Prompt
from kvant.rollout.evidence import BASELINE

TOKENS = 64
"""Of an answer to a prompt that does not say."""


def read(file: Path) -> list[Prompt]:
    """Prompts that have answers; `ConfigError` where one has none to compare with."""
    found = recorded.read(file)
    bare = next((n for n, one in enumerate(found, 1) if not one.expected), None)
    if bare is not None:
        raise ConfigError(
            f"{file}: prompt {bare} has no `answers`; record them while a baseline runs "
            "(kvant.gateway.answers.golden.record)"
        )
    return found


async def ask(asker: Asker, arm: str, model: str, prompt: Prompt, seconds: float) -> str:
    """The arm's greedy answer; of its only model where none is named."""
    body: dict[str, Any] = {"temperature": 0, "max_tokens": prompt.tokens or TOKENS}
    if model:
        body["model"] = model
    if prompt.messages:
        path, body["messages"] = "/v1/chat/completions", list(prompt.messages)
    else:
        path, body["prompt"] = "/v1/completions", prompt.prompt
    found = await asker.ask(arm, path, body, seconds=seconds, headers=mirror.LOW)
    return response.answer(found, arm).text


async def compare(asker: Asker, arm: str, model: str, prompt: Prompt, seconds: float) -> Apart | None:
    """The arm's answer against the recorded one that it agrees with longest."""
    answer = await ask(asker, arm, model, prompt, seconds)
    found = [one for expected in prompt.expected if (one := agreed(expected, answer))]
    return max(found, key=lambda one: one.agreement, default=None)


async def record(asker: Asker, model: str, prompts: Sequence[Prompt], file: Path, seconds: float) -> int:
    """Writes each prompt with the baseline's greedy answer; how many. `EngineError` if it answers nothing."""
    lines = []
    for prompt in prompts:
        text = await ask(asker, BASELINE, model, prompt, seconds)
        if text.strip():
            lines.append(
                {
                    **({"messages": list(prompt.messages)} if prompt.messages else {"prompt": prompt.prompt}),
                    "max_tokens": prompt.tokens or TOKENS,
                    "answers": [text],
                }
            )
    if not lines:
        raise EngineError(f"arm {BASELINE}: answers none of {len(prompts)} golden prompts")
    whole = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    temporary.write_text(whole, encoding="utf-8")
    temporary.replace(file)
    return len(lines)
