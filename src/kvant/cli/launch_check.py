"""`kvant launch-check`: everything a service must show before it is let loose."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kvant.errors import KvantError

if TYPE_CHECKING:
    from kvant.launch.settings import Settings as Limits


def launch_check(
    config: Annotated[
        Path | None, typer.Option("-c", "--config", metavar="FILE", help="Of the service, as of kvant serve.")
    ] = None,
    url: Annotated[
        str | None, typer.Option(metavar="URL", help="A service that runs; without, one is started from -c.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="With --url: which model, where it has several.")
    ] = None,
    metrics: Annotated[
        str | None, typer.Option(metavar="URL", help="Of its metrics. [default: URL/metrics]")
    ] = None,
    limits: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Limits, rounds, suites and soak, YAML.")
    ] = None,
    suites: Annotated[
        str | None,
        typer.Option(metavar="NAME,...", help="Of the gate, or none. [default: those in the limits]"),
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(metavar="URL", help="Of the gate. [default: bf16, started here]")
    ] = None,
    soak: Annotated[
        str | None, typer.Option(metavar="TIME", help="90s, 30m, 8h. [default: 30m, or the limits']")
    ] = None,
    alert_url: Annotated[
        str | None, typer.Option(metavar="URL", help="Gets a test alert: http://HOST:9093/api/v2/alerts.")
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Everything as JSON, - for stdout.")
    ] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="The page, one file.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget what earlier runs have found.")] = False,
    example: Annotated[bool, typer.Option("--example", help="Print the limits with defaults.")] = False,
) -> None:
    """Check interface, memory against plan, speed, quality, a soak and alerts; one page, resumable.

    Exit status: 0 all passed, 1 something failed, 2 something is inconclusive or was not run, 3 error,
    130 interrupted: run again to go on.
    """
    from kvant.cli.complaint import complain
    from kvant.launch import settings as launch_settings
    from kvant.launch.result import ERROR

    try:
        if example:
            typer.echo(launch_settings.example(), nl=False)
            return
        found = launch_settings.load(limits)
        changes = {"seconds": launch_settings.seconds(soak, "--soak")} if soak else {}
        found = found.model_copy(
            update={
                "soak": found.soak.model_copy(update=changes),
                "alert_url": alert_url or found.alert_url,
            }
        )
        status = _run(found, config, url, model, metrics, suites, baseline, (json_file, html), fresh)
    except KvantError as error:
        complain(error)
        status = ERROR
    raise typer.Exit(status)


def _run(
    limits: Limits,
    config: Path | None,
    url: str | None,
    model: str | None,
    metrics: str | None,
    suites: str | None,
    baseline: str | None,
    files: tuple[Path | None, Path | None],
    fresh: bool,
) -> int:
    from rich.console import Console

    from kvant.bench import machine, result
    from kvant.cli.steps import steps
    from kvant.config import address, load
    from kvant.errors import ConfigError
    from kvant.launch import report
    from kvant.launch.checklist import Interrupted, Request, run
    from kvant.launch.result import EXIT, INTERRUPTED, worst
    from kvant.quality.gate import settings as gate_settings

    if config is None and url is None:
        raise ConfigError("name the service: -c FILE starts it, --url URL is one that runs")
    for flag, text in (("--url", url), ("--metrics", metrics), ("--baseline", baseline)):
        address.check(text, flag)
    if limits.alert_url and not address.is_url(limits.alert_url):  # often a secret: not shown
        raise ConfigError("--alert-url, or alert_url of the limits: begins with neither http:// nor https://")
    for flag, file in zip(("--json", "--html"), files, strict=True):
        result.check(file, flag)
    json_file, html_file = files
    chosen = () if suites == "none" else gate_settings.override(limits.gate, suites, None).suites
    asked = Request(config, load(config), limits, chosen, url, metrics, model, baseline, fresh)
    console = Console(stderr=json_file == result.STDOUT, highlight=False, soft_wrap=True)
    stopped = False
    with steps(console) as tell:
        try:
            found = run(asked, lambda step, what: tell(step, what, 0, 0))
        except Interrupted as so_far:
            stopped, found = True, so_far.steps
    for line in report.lines(found):
        console.print(line, markup=False)
    facts = machine.describe()
    told = limits.model_dump(mode="json", exclude={"alert_url"})  # a webhook's address is often its secret
    if json_file:
        result.write(json_file, report.to_json(found, facts | {"limits": told}))
    if html_file:
        report.write(html_file, found, facts)
    if stopped:
        typer.echo("interrupted: what is done is kept; run the same again to go on", err=True)
        return INTERRUPTED
    return EXIT[worst(step.verdict for step in found)]
