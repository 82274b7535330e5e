"""`kvant plan`: how many requests fit, how fast, under which limits, and what it is worth."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

NOTHING_FITS = 1


def plan(
    model: Annotated[
        str | None,
        typer.Argument(metavar="[MODEL]", help="A model folder, its config.json, or a packaged model."),
    ] = None,
    shape: Annotated[
        str | None,
        typer.Option(metavar="K=V,...", help="Instead: layers=36,kv_heads=8,head_dim=128,parameters=4e9"),
    ] = None,
    on: Annotated[str | None, typer.Option(metavar="DEVICE", help="A device of the catalogue.")] = None,
    devices: Annotated[
        int, typer.Option(min=1, max=1024, help="Tensor-parallel ranks, one device each.")
    ] = 1,
    hardware: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Your devices and prices (YAML).")
    ] = None,
    context: Annotated[
        str | None, typer.Option(metavar="N|N:W,...", help="Tokens of a request, or lengths with weights.")
    ] = None,
    histogram: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Lengths as lines tokens,requests.")
    ] = None,
    metrics: Annotated[
        str | None, typer.Option(metavar="URL|FILE", help="Lengths that a running service has counted.")
    ] = None,
    answer: Annotated[
        float | None,
        typer.Option(metavar="N", help="Mean tokens of an answer. [default: a quarter, or measured]"),
    ] = None,
    precision: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMES", help="Presets, vLLM's cache types, or KEY/VALUE. [default: seven of them]"
        ),
    ] = None,
    recipe: Annotated[
        list[Path] | None, typer.Option(metavar="DIR", help="A recipe of `kvant calibrate`; may be repeated.")
    ] = None,
    candidate: Annotated[
        str | None, typer.Option(metavar="NAME", help="Whose limits and return. [default: lossless]")
    ] = None,
    concurrency: Annotated[
        int, typer.Option(min=1, max=10**6, help="Requests that one instance must hold.")
    ] = 1,
    demand: Annotated[
        float | None,
        typer.Option(min=0.001, max=1e12, help="Requests at once of all instances. [default: 10 instances]"),
    ] = None,
    max_num_seqs: Annotated[
        int | None, typer.Option(min=1, max=65536, help="Fixed. [default: the largest that fits]")
    ] = None,
    kv_memory_gib: Annotated[
        float | None, typer.Option(min=0.001, max=1e9, help="Memory of the cache. [default: what is left]")
    ] = None,
    weights_gib: Annotated[
        float | None,
        typer.Option(min=0.001, max=1e9, help="Size of the weights. [default: their files, or counted]"),
    ] = None,
    block_size: Annotated[int, typer.Option(help="Tokens in a page.")] = 64,
    max_num_batched_tokens: Annotated[int, typer.Option(min=1, max=2**24, help="Tokens of a step.")] = 2048,
    utilisation: Annotated[float, typer.Option(min=0.05, max=1.0, help="Of the memory, for vLLM.")] = 0.92,
    overhead_gib: Annotated[float, typer.Option(min=0.0, max=1e9, help="Driver, buffers, graphs.")] = 1.5,
    margin: Annotated[float, typer.Option(min=0.0, max=0.9, help="Of the pool, left free.")] = 0.25,
    efficiency: Annotated[float, typer.Option(min=0.01, max=1.0, help="Of the bandwidth, reached.")] = 0.6,
    wait: Annotated[float, typer.Option(min=0.0, max=1e9, help="Seconds in the queue.")] = 10.0,
    assume: Annotated[Path | None, typer.Option(metavar="FILE", help="Your assumptions (YAML).")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="One assumption; may be repeated.")
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write everything as JSON, - for stdout.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="A tornado: .svg, .png or .pdf.")] = None,
) -> None:
    """Plan memory, limits, speed and return of a service, before it runs or from its traffic.

    Exits with 1 where nothing fits, and says what would.
    """
    from kvant.bench import plot as drawing
    from kvant.bench import result
    from kvant.errors import ConfigError
    from kvant.plan import assumptions, facts, report, roi
    from kvant.plan import hardware as catalogue
    from kvant.plan import plot as figure
    from kvant.plan import precision as precisions
    from kvant.plan.ask import contexts, model_of, page
    from kvant.plan.plan import make
    from kvant.plan.request import Request
    from kvant.plan.room import GIB, Room

    result.check(json_file)
    drawing.check(plot)
    known = catalogue.devices(hardware)
    if on is None:
        raise ConfigError(f"--on: name the device: {', '.join(known)}; --hardware FILE adds yours")
    planned = model_of(model, shape, weights_gib)
    room = Room(
        device=catalogue.find(on, known),
        ranks=devices,
        utilisation=utilisation,
        overhead_gib=overhead_gib,
        kv_memory=int(kv_memory_gib * GIB) if kv_memory_gib is not None else None,
        block_size=page(block_size),
        step_tokens=max_num_batched_tokens,
        margin=margin,
        efficiency=efficiency,
        wait=wait,
    )
    names = [name for text in precision or [",".join(precisions.DEFAULT)] for name in text.split(",") if name]
    if not names:
        raise ConfigError("--precision: names nothing; leave it out for seven of them")
    stored = precisions.parse(names, recipe or (), block_size)
    if candidate is not None and candidate not in [one.name for one in stored]:
        raise ConfigError(f"--candidate {candidate}: is not among {', '.join(one.name for one in stored)}")
    made = make(
        Request(
            planned, stored, contexts(planned, context, histogram, metrics, answer), room,
            assumptions.assumptions(assume, set_ or ()), max_num_seqs, concurrency, demand, candidate,
        )
    )  # fmt: skip
    if json_file is not None:
        result.write(json_file, facts.facts(made))
    typer.echo("\n".join(report.lines(made)), err=json_file == result.STDOUT)
    if plot is not None and made.service is not None and made.chosen is not None:
        assumed = made.request.assumed
        title = f"{made.chosen.fit.precision.name} instead of bf16: {planned.name} on {devices} x {on}"
        base = roi.value(made.service, roi.base(assumed)).year
        figure.draw(plot, roi.swings(made.service, assumed), base, title, "prices and ranges are examples")
    elif plot is not None:
        typer.echo(f"warning: {plot} is not written: there is no return to draw", err=True)
    if made.reason:
        raise typer.Exit(NOTHING_FITS)
