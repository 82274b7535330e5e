"""`kvant serve`: options -> settings -> the engine."""

from __future__ import annotations

from typing import Annotated

import typer

from kvant.cli.overrides import Assignments, ConfigFile, collect


def serve(
    name: Annotated[
        str | None, typer.Argument(metavar="[MODEL]", help="The same as --model.", show_default=False)
    ] = None,
    config: ConfigFile = None,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="Packaged model, local folder or hub id (model.path).")
    ] = None,
    host: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Address to listen on (serving.host).")
    ] = None,
    port: Annotated[str | None, typer.Option(metavar="N", help="Port of the API (serving.port).")] = None,
    preset: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="lossless, balanced, max, int8 or founding (kv_cache.preset)."),
    ] = None,
    recipe: Annotated[
        str | None, typer.Option(metavar="DIR", help="Folder that `kvant calibrate` made (kv_cache.recipe).")
    ] = None,
    codec: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="auto, int, codebook, polar or trellis (kv_cache.codec)."),
    ] = None,
    key_bits: Annotated[
        str | None, typer.Option(metavar="N", help="2, 3, 4, 8 or 16 (kv_cache.key_bits).")
    ] = None,
    value_bits: Annotated[
        str | None, typer.Option(metavar="N", help="2, 3, 4, 8 or 16 (kv_cache.value_bits).")
    ] = None,
    behind_gateway: Annotated[bool, typer.Option("--behind-gateway", hidden=True)] = False,
    assignments: Assignments = None,
) -> None:
    """Serve a model with a low-bit KV cache through an OpenAI-compatible API.

    Without options: the demo model and the default preset, on http://127.0.0.1:8080.
    """
    from kvant.config import load
    from kvant.config.scalars import resolve
    from kvant.engine import options

    def number(text: str | None) -> object:
        # Read as in the file, so that the same values are refused with the same words; "" and "null"
        # stay text, because None means that the flag was not given.
        value = None if text is None else resolve(text)
        return text if value is None else value

    overrides, flags = collect(
        {
            "MODEL": ("model.path", name if name != model else None),
            "--model": ("model.path", model),
            "--host": ("serving.host", host),
            "--port": ("serving.port", number(port)),
            "--preset": ("kv_cache.preset", preset),
            "--recipe": ("kv_cache.recipe", recipe),
            "--codec": ("kv_cache.codec", codec),
            "--key-bits": ("kv_cache.key_bits", number(key_bits)),
            "--value-bits": ("kv_cache.value_bits", number(value_bits)),
        },
        assignments or (),
    )
    settings = load(config, overrides, flags=flags, engine_check=options.check)
    for warning in settings.warnings:
        typer.echo(f"warning: {warning}", err=True)
    # Only now, so that a wrong setting is told before a missing library.
    from kvant.engine.serve import run

    raise typer.Exit(run(settings, behind_gateway=behind_gateway))
