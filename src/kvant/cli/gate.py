"""`kvant gate`: may the candidate replace the baseline?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperCommand

from kvant.errors import KvantError


class GateCommand(TyperCommand):
    """Misuse must not look like a verdict: it ends with the status of an error."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        try:
            return super().make_context(info_name, args, parent, **extra)
        except Exception as error:
            if hasattr(error, "exit_code") and error.exit_code:  # typer does not say what it raises
                from kvant.quality.gate.verdict import ERROR

                error.exit_code = ERROR
            raise

    def invoke(self, ctx: Any) -> Any:
        """Nor must what nobody foresaw: Python would end with 1, which is a failed suite."""
        try:
            return super().invoke(ctx)
        except Exception as error:
            if hasattr(error, "exit_code"):
                raise
            from traceback import print_exc

            from kvant.quality.gate.verdict import ERROR

            print_exc()
            raise typer.Exit(ERROR) from error


def gate(
    baseline: Annotated[str, typer.Option(metavar="ARM", help="What is trusted.")] = "bf16",
    candidate: Annotated[str, typer.Option(metavar="ARM", help="What may replace it.")] = "lossless",
    model: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Model to start, or to ask a running server for."),
    ] = None,
    suites: Annotated[
        str | None, typer.Option(metavar="NAME,...", help="Instead of those in the settings.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option("-c", "--config", metavar="FILE", help="Suites and margins, YAML.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Chooses every text and number.")] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Everything as JSON, - for stdout.")
    ] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="A report for people, one file.")] = None,
    junit: Annotated[Path | None, typer.Option(metavar="FILE", help="JUnit XML for CI.")] = None,
    language: Annotated[
        Literal["en", "zh"], typer.Option(help="Of the table, the HTML and JUnit's messages.")
    ] = "en",
    example: Annotated[bool, typer.Option("--example", help="Print the settings with defaults.")] = False,
) -> None:
    """Compare two arms in paired suites: pass, fail or inconclusive, which is not pass.

    An arm is the URL of an OpenAI-compatible server, a preset, the folder of a recipe, or bf16.
    Exit status: 0 pass, 1 fail, 2 inconclusive, 3 error.
    """
    from kvant.cli.complaint import complain
    from kvant.quality.gate import settings as gate_settings
    from kvant.quality.gate.verdict import ERROR

    try:
        if example:
            typer.echo(gate_settings.example(), nl=False)
            return
        status = _run(baseline, candidate, model, suites, config, seed, (json_file, html, junit), language)
    except KvantError as error:
        complain(error)
        status = ERROR
    raise typer.Exit(status)


def _run(
    baseline: str,
    candidate: str,
    model: str | None,
    suites: str | None,
    config: Path | None,
    seed: int | None,
    files: tuple[Path | None, Path | None, Path | None],
    language: Literal["en", "zh"],
) -> int:
    from rich.console import Console

    from kvant.bench import machine, result
    from kvant.cli.steps import steps
    from kvant.quality.gate import settings as gate_settings
    from kvant.quality.gate.arm import Arm
    from kvant.quality.gate.report import html, junit, table
    from kvant.quality.gate.report.words import WORDS
    from kvant.quality.gate.run import gate
    from kvant.quality.gate.verdict import EXIT

    settings = gate_settings.override(gate_settings.load(config), suites, seed)
    for flag, file in zip(("--json", "--html", "--junit"), files, strict=True):
        result.check(file, flag)
    json_file, html_file, junit_file = files
    arms = [Arm(what, model, settings.max_context) for what in (baseline, candidate)]
    facts = machine.describe() | {"settings": settings.model_dump(mode="json")}
    if arms[0].same_server(arms[1]):
        facts["note"] = "both arms are one server: this tells how it differs from itself"
    console = Console(stderr=json_file == result.STDOUT, highlight=False, soft_wrap=True)
    with steps(console) as tell:
        outcome = gate(
            arms[0], arms[1], settings, facts, lambda what, done, total: tell(what, "", done, total)
        )
    for line in table.lines(outcome, WORDS[language]):
        console.print(line, markup=False)
    if "note" in facts:
        console.print(f"note: {facts['note']}", markup=False)
    if json_file:
        result.write(json_file, outcome.to_json())
    if html_file:
        html.write(html_file, outcome, WORDS[language])
    if junit_file:
        junit.write(junit_file, outcome, WORDS[language])
    return EXIT[outcome.verdict]
