"""`kvant long`: do long texts written over a quantised cache degenerate, and does its error grow?"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from kvant.quality.generation.figures import Written
    from kvant.quality.generation.growth import Growth


def long(
    models: Annotated[list[str], typer.Argument(metavar="MODEL...", help="Packaged models or folders.")],
    text: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="A prompt to go on from. [default: English, Chinese, code]"),
    ] = None,
    preset: Annotated[
        str, typer.Option(help="Presets, or names as `kvant fidelity` has them.")
    ] = "lossless,balanced,max",
    tokens: Annotated[int, typer.Option(help="Tokens of prompt and text together.")] = 1152,
    temperature: Annotated[float, typer.Option(min=0.01, help="Of the sampled texts.")] = 0.8,
    seeds: Annotated[int, typer.Option(min=1, help="Sampled texts of each prompt.")] = 2,
    dtype: Annotated[Literal["bfloat16", "float32"], typer.Option(help="Type of the model.")] = "bfloat16",
    threads: Annotated[
        str | None, typer.Option(help="Cores of the engine, as vLLM binds. [default: all]")
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write every row as JSON, - for stdout.")
    ] = None,
) -> None:
    """Let a model write long texts over 16-bit and quantised caches, greedy and sampled; compare them."""
    from rich.console import Console

    from kvant.bench import result
    from kvant.errors import ConfigError
    from kvant.models import resolve
    from kvant.quality.fidelity import report, texts
    from kvant.quality.fidelity.measure import tokenizer
    from kvant.quality.fidelity.request import Request
    from kvant.quality.fidelity.settings import Settings
    from kvant.quality.generation import measure, prompts, table
    from kvant.quality.generation.decoding import Writing, decodings

    result.check(json_file)
    cores = threads or f"0-{len(os.sched_getaffinity(0)) - 1}"
    settings = Settings(tokens, tokens // 2, dtype, True, cores, even=True)
    begun = texts.load(text) if text else prompts.shipped()
    if len(begun) < 2:
        raise ConfigError("--text: one prompt has no standard error; give two at least")
    names = [name for name in preset.split(",") if name]
    request = Request(names, [], None, [], begun, settings, simulated=False)
    console = Console(stderr=json_file == result.STDOUT, highlight=False, soft_wrap=True)
    where = report.facts(settings, begun) | {"temperature": temperature, "seeds": seeds}
    rows: list[Written] = []
    growths: list[Growth] = []
    for name in models:
        folder = resolve(name)
        model = measure.Model(name, folder, tokenizer(folder, settings))
        specs = request.specs(folder)
        ids = prompts.tokens(begun, model.tokenizer, tokens)
        writing, sampled = Writing(ids, decodings(temperature, seeds), tokens), dict[str, list[int]]()
        console.print(f"{name}\n{table.HEAD}")
        for group in measure.written(model, specs, writing, settings, sampled.update):
            rows += group
            console.print("\n".join(map(table.line, group)))
            _write(json_file, where, rows, growths)
        for found in measure.grown(model, sampled, specs, settings):
            growths.append(found)
            console.print("\n".join(table.lines(found)))
            _write(json_file, where, rows, growths)
    _write(json_file, where, rows, growths, last=True)


def _write(
    file: Path | None,
    where: dict[str, Any],
    rows: list[Written],
    growths: list[Growth],
    last: bool = False,
) -> None:
    """A file is written anew after each configuration, stdout once."""
    from kvant.bench import result

    if file is None or (file == result.STDOUT and not last):
        return
    found = {"written": [row.to_json() for row in rows], "growth": [one.to_json() for one in growths]}
    result.write(file, where | found)
