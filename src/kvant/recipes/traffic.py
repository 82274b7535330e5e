"""Prompts that `kvant serve` was allowed to keep: a bounded sample of their tokens, in a file.

JSON lines: {"version": "traffic-v1", "model": DIGEST}, then one list of token ids for each prompt. Whoever
can read it can read prompts, so it is made for its owner alone.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random, SystemRandom

from kvant import whole
from kvant.errors import CalibrationError

VERSION = "traffic-v1"
PROMPTS = 256
"""Prompts that are kept."""
LONGEST = 512
"""Tokens that are kept of one, in a row, from anywhere in it."""


@dataclass
class Reservoir:
    """Every prompt that was offered is in it with the same probability (Vitter's algorithm R)."""

    model: str
    """Digest of the model whose tokens they are."""
    prompts: list[list[int]] = field(default_factory=list)
    offered: int = 0
    random: Random = field(default_factory=SystemRandom)

    def offer(self, prompt: Sequence[int]) -> None:
        """Keep the prompt, in place of another if there are enough, or not."""
        self.offered += 1
        full = len(self.prompts) == PROMPTS
        place = self.random.randrange(self.offered) if full else len(self.prompts)
        if place < PROMPTS:
            first = self.random.randrange(max(1, len(prompt) - LONGEST + 1))
            self.prompts[place : place + 1] = [list(prompt[first : first + LONGEST])]

    def save(self, path: Path) -> None:
        """Replace the file, whole or not at all, readable by its owner alone."""
        lines = [{"version": VERSION, "model": self.model}, *self.prompts]
        whole.write(path, "".join(json.dumps(line) + "\n" for line in lines).encode(), mode=0o600)


def tokens(path: Path, model: str) -> list[int]:
    """All prompts of a file end to end; `CalibrationError` if it is none, or of another model."""
    try:
        with path.open(encoding="utf-8") as file:
            head, *prompts = [json.loads(line) for line in file]
        version, digest = head.get("version"), head.get("model")
        found = [token for prompt in prompts for token in prompt]
    except OSError as error:
        raise CalibrationError(f"--from-traffic {path}: cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, AttributeError):
        version, digest, found = None, None, []
    if version != VERSION or not all(type(token) is int and token >= 0 for token in found):
        raise CalibrationError(f"--from-traffic {path}: is no {VERSION} file of `kvant serve`")
    if digest != model:
        raise CalibrationError(f"--from-traffic {path}: was sampled from another model, digest {digest!r}")
    return found
