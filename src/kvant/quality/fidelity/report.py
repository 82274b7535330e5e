"""What a result file says beside its rows: where, with what, and on what it was measured."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

from kvant.bench.machine import describe
from kvant.bench.machine import note as machine_note
from kvant.quality.fidelity.settings import Settings
from kvant.quality.fidelity.texts import Text


def facts(settings: Settings, texts: Sequence[Text]) -> dict[str, Any]:
    """Of the tree that is measured, not of one edited meanwhile: asked for before the first row."""
    found = describe()
    found["versions"]["transformers"] = version("transformers")
    found["versions"]["python"] = platform.python_version()  # the default texts are Python's own
    digests = {text.name: hashlib.sha256(text.content.encode()).hexdigest()[:16] for text in texts}
    return found | {"settings": asdict(settings), "texts": digests}


def note(facts: dict[str, Any]) -> str:
    """One line of it, for under a plot."""
    return f"{facts['settings']['tokens']} tokens of {', '.join(facts['texts'])}; {machine_note(facts)}"
