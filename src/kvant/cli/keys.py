"""`kvant keys`: the API keys of a gateway."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kvant.errors import ConfigError

if TYPE_CHECKING:
    from kvant.gateway.keys.key import Key

app = typer.Typer(help="API keys of a gateway: hashed at rest, rotated without a gap.", no_args_is_help=True)

KeyFile = Annotated[Path, typer.Option("--file", "-f", metavar="FILE", help="security.key_file.")]
Days = Annotated[
    float | None, typer.Option(min=0, metavar="DAYS", help="Days until it expires; default: never.")
]
DAY = 86_400.0


@app.command()
def create(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="Whose it is, for people.")] = "",
    file: KeyFile = Path("keys.json"),
    scope: Annotated[
        list[str] | None, typer.Option(help="generate (default), metrics or admin. Repeatable.")
    ] = None,
    days: Days = None,
    requests_per_minute: Annotated[int | None, typer.Option(min=1, help="Instead of the gateway's.")] = None,
    tokens_per_minute: Annotated[int | None, typer.Option(min=1, help="Instead of the gateway's.")] = None,
    concurrency: Annotated[int | None, typer.Option(min=1, help="Instead of the gateway's.")] = None,
) -> None:
    """Make a key and print it; it cannot be shown again."""
    from kvant.gateway.keys.file import changing, read
    from kvant.gateway.keys.fresh import remarks
    from kvant.gateway.keys.key import SCOPES, made
    from kvant.gateway.keys.ring import Keyring

    asked = list(dict.fromkeys(scope or ["generate"]))
    if wrong := [one for one in asked if one not in SCOPES]:
        raise ConfigError(f"--scope {wrong[0]}: is not one of {', '.join(SCOPES)}")
    now = time.time()
    with changing(file) as write:
        fresh = not file.exists()
        ring = Keyring() if fresh else read(file)
        key, text = made(
            name,
            tuple(one for one in SCOPES if one in asked),
            now,
            _expiry(now, days),
            requests_per_minute=requests_per_minute,
            tokens_per_minute=tokens_per_minute,
            concurrency=concurrency,
        )
        write(ring.with_key(key))
    for remark in remarks(file) if fresh else ():
        typer.echo(f"note: {remark}", err=True)
    typer.echo(text)


@app.command("list")
def list_keys(file: KeyFile = Path("keys.json")) -> None:
    """Print all keys, without their secrets."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from kvant.gateway.keys.file import read

    now = time.time()
    table = Table("id", "name", "scopes", "made", "secrets", box=None, pad_edge=False)
    for key in read(file).keys.values():
        made = time.strftime("%Y-%m-%d", time.gmtime(key.created))
        secrets = ", ".join(_state(one.expires, now) for one in key.secrets)
        table.add_row(*map(Text, (key.id, key.name, " ".join(key.scopes), made, secrets)))
    Console(soft_wrap=True).print(table)


@app.command()
def rotate(
    key_id: Annotated[str, typer.Argument(metavar="ID")],
    file: KeyFile = Path("keys.json"),
    overlap_hours: Annotated[
        float, typer.Option(min=0, help="Hours that the old secret still opens; 0 ends it now.")
    ] = 24.0,
    days: Days = None,
) -> None:
    """Give a key a new secret and print it; id, quota and cache stay."""
    from kvant.gateway.keys.file import changing, read

    now = time.time()
    with changing(file) as write:
        ring = read(file)
        key, text = _known(ring.keys, key_id, file).renewed(now, overlap_hours * 3600, _expiry(now, days))
        write(ring.with_key(key))
    typer.echo(text)


@app.command()
def revoke(key_id: Annotated[str, typer.Argument(metavar="ID")], file: KeyFile = Path("keys.json")) -> None:
    """Remove a key; a running gateway refuses it within a second."""
    from kvant.gateway.keys.file import changing, read

    with changing(file) as write:
        ring = read(file)
        write(ring.without(_known(ring.keys, key_id, file).id))
    typer.echo(f"{key_id}: revoked")


def _known(keys: dict[str, Key], key_id: str, file: Path) -> Key:
    if key_id not in keys:
        raise ConfigError(f"{key_id[:40]!r}: no such key in {file}; `kvant keys list` shows the ids")
    return keys[key_id]


def _expiry(now: float, days: float | None) -> float | None:
    return None if days is None else now + days * DAY


def _state(expires: float | None, now: float) -> str:
    if expires is None:
        return "valid"
    if expires <= now:
        return "expired"
    return "until " + time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(expires))
