"""`kvant doctor`: is this machine ready to serve, or what is wrong with a service that runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def doctor(
    url: Annotated[
        str | None, typer.Option(metavar="URL", help="Examine the service that runs there, not the machine.")
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(metavar="URL", help="With --url: a server that is trusted, to compare with.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option("-c", "--config", metavar="FILE", help="With --url: its configuration.")
    ] = None,
    log: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --url: its log, also of a start that failed.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="With --url: which model, where it has several.")
    ] = None,
    metrics: Annotated[
        str | None, typer.Option(metavar="URL", help="With --url: of its metrics. [default: URL/metrics]")
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the findings as JSON, - for stdout.")
    ] = None,
) -> None:
    """Check versions, kernels, threads, memory and the plugin; each finding comes with its mend.

    With --url, load a running service for about a minute and explain the failures it shows: quality, memory,
    attention, first token, blocks, garbled output, start, throughput, timeouts. Exits with 1 on a failure.
    """
    from kvant.config import address, load
    from kvant.doctor import examine, report
    from kvant.errors import ConfigError

    if url is None:
        for name, value in {"--baseline": baseline, "-c": config, "--log": log, "--metrics": metrics}.items():
            if value is not None:
                raise ConfigError(f"{name}: is of a service that runs; name it with --url")
        examination = examine()
    else:
        from kvant.doctor.running.examine import examine as examine_running
        from kvant.doctor.running.patient import Patient

        for flag, text in (("--url", url), ("--baseline", baseline), ("--metrics", metrics)):
            address.check(text, flag)
        if log is not None and not log.is_file():
            raise ConfigError(f"--log {log}: no such file")
        settings = load(config) if config else None
        patient = Patient.ask(
            url, metrics=metrics, model=model, baseline=baseline, settings=settings, log=log
        )
        examination = examine_running(patient)
    if json_file is not None:
        report.write_json(examination, json_file)
    if json_file != Path("-"):
        report.show(examination, running=url is not None)
    raise typer.Exit(1 if examination.failed else 0)
