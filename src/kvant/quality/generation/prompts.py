"""Openings of texts without a near end: written for Kvant, and read without a chat template."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kvant.errors import ConfigError
from kvant.quality.fidelity.texts import Text

FILE = Path(__file__).with_name("prompts.json")


def shipped() -> list[Text]:
    """Four each of English, Chinese and code, named english-1 and so on."""
    found: Mapping[str, Sequence[str]] = json.loads(FILE.read_text(encoding="utf-8"))
    return [Text(f"{kind}-{n}", text) for kind, texts in found.items() for n, text in enumerate(texts, 1)]


def tokens(prompts: Sequence[Text], tokenizer: Any, context: int) -> dict[str, list[int]]:
    """Token ids by name; `ConfigError` for a prompt that leaves less than half of the context to write in."""
    found = {prompt.name: list(tokenizer(prompt.content, verbose=False).input_ids) for prompt in prompts}
    for name, ids in found.items():
        if not ids or len(ids) > context // 2:
            raise ConfigError(
                f"prompt {name}: {len(ids)} tokens of this model; 1 to {context // 2} are possible with "
                f"--tokens {context}"
            )
    return found
