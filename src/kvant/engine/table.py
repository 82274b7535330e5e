"""What is served, in one table: printed once, when requests can come."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvant.config import Settings
from kvant.engine.chosen import Chosen
from kvant.engine.verify import EngineReport

if TYPE_CHECKING:
    from rich.console import Console


def rows(
    settings: Settings, report: EngineReport, chosen: Chosen, *, name: str, max_context: int, engine: str
) -> list[tuple[str, str]]:
    """The facts, in reading order; numbers are those the workers reported."""
    kept = sum(layer.why.startswith("kept") for layer in report.layers)
    cache = f"{report.formats}, {report.effective_bits:.2f} bits per element"
    found = [
        ("model", f"{name} ({settings.model.dtype})"),
        ("engine", engine),
        ("KV cache", cache + (f"; {kept} of {len(report.layers)} layers kept in 16 bits" if kept else "")),
        (
            "bytes per token",
            f"{report.bytes_per_token:,} (bf16: {report.bytes_per_token_bf16:,}, {report.compression:.2f}x)",
        ),
        (
            "capacity",
            f"{report.num_blocks:,} blocks of {report.block_size} tokens, {report.tokens:,} tokens, "
            f"{report.kv_bytes / 2**30:.2f} GiB"
            + (
                f"; sinks and windows in 16 bits: {report.exact_bytes / 2**20:.0f} MiB"
                if report.exact_bytes
                else ""
            ),
        ),
        ("longest request", f"{max_context:,} tokens, prompt and answer"),
        (
            "kernel",
            report.kernel + (f" (not better: {report.why_not_better})" if report.why_not_better else ""),
        ),
        ("threads", f"{report.threads}" + (f" on each of {report.ranks} ranks" if report.ranks > 1 else "")),
    ]
    found[3:3] = _choice(chosen)
    if report.digest:
        found.append(("identity", report.digest))
    return [*found, ("listening on", url(settings))]


def _choice(chosen: Chosen) -> list[tuple[str, str]]:
    """Which preset and which recipe decided what is stored; nothing where the formats were named."""
    found = [("preset", chosen.preset)] if chosen.preset else []
    if recipe := chosen.recipe:
        made = recipe.facts.calibration
        calibrated = f", {made.transform} for positions below {made.max_position:,}" if made else ""
        found.append(("recipe", f"{recipe.folder} (digest {recipe.digest[:16]}{calibrated})"))
    return found


def url(settings: Settings) -> str:
    host = settings.serving.host
    return f"http://{f'[{host}]' if ':' in host else host}:{settings.serving.port}"


def example(settings: Settings, name: str) -> str:
    """A request to paste into a shell."""
    body = json.dumps({"model": name, "messages": [{"role": "user", "content": "Why is the sky blue?"}]})
    key = ' -H "Authorization: Bearer $KVANT_KEY"' if settings.security.api_key_file else ""
    return f"curl {url(settings)}/v1/chat/completions{key} -H 'Content-Type: application/json' -d '{body}'"


def show(console: Console, facts: Sequence[tuple[str, str]], curl: str) -> None:
    """A table on a terminal, plain lines elsewhere; then the request to paste, if there is one."""
    if console.is_terminal:
        from rich.table import Table
        from rich.text import Text

        table = Table(show_header=False, title="Kvant", title_justify="left")
        for fact, value in facts:
            table.add_row(fact, Text(value))
        console.print(table)
    else:
        for fact, value in facts:
            print(f"{fact + ':':<17} {value}")
    # Not through the console, which would break the line where it cannot be pasted from.
    if curl:
        print(f"\n{curl}\n")
    sys.stdout.flush()
