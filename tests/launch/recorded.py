"""/metrics of a real `kvant serve` (lossless, SmolLM2, 34 requests), with figures changed on request.

Buckets of most histograms and what no check reads were left out.
"""

from __future__ import annotations

import re
from pathlib import Path

from kvant.telemetry.scrape import Scrape

TEXT = Path(__file__).with_name("metrics.txt").read_text()


def text(**changes: float | str) -> str:
    """`kvant_ready=0` changes a series with its labels left as they are; a text changes a label's value.

    Colons of names are written as two underscores: `vllm__num_preemptions_total=40`.
    """
    found = TEXT
    for name, value in changes.items():
        name = name.replace("__", ":")
        if isinstance(value, str):
            found, count = re.subn(rf'\b{name}="[^"]*"', f'{name}="{value}"', found)
        else:
            found, count = re.subn(
                rf"^({name}(?:{{[^}}]*}})?) .*$", rf"\g<1> {value}", found, flags=re.MULTILINE
            )
        assert count, f"{name} is not in metrics.txt"
    return found


def scrape(**changes: float | str) -> Scrape:
    return Scrape.of(text(**changes))
