"""`kvant rollout`: watch and steer the release of a candidate at a running gateway."""

from __future__ import annotations

from typing import Annotated, Any

import typer

KEY = "KVANT_ADMIN_KEY"
WAIT = 10.0
WIDTH = 130
"""Columns of the table: in fewer its figures would be cut, and a terminal can wrap by itself."""

app = typer.Typer(
    name="rollout",
    help="Watch and steer the release of a candidate at a running gateway.",
    no_args_is_help=True,
)

Url = Annotated[str, typer.Option("--url", metavar="URL", help="The gateway.")]
Json = Annotated[bool, typer.Option("--json", help="The status as JSON.")]
GATEWAY = "http://127.0.0.1:8080"


@app.command()
def status(
    url: Url = GATEWAY,
    json: Json = False,
    all_: Annotated[bool, typer.Option("--all", help="Every change that is kept, not the newest.")] = False,
) -> None:
    """What phase the rollout is in, what it has seen, and what is missing to go on.

    The key of an administrator is taken from KVANT_ADMIN_KEY.
    """
    _show(_ask("GET", url, "/rollout"), json, whole=all_)


@app.command()
def start(url: Url = GATEWAY, json: Json = False) -> None:
    """Begin, in shadow, with no evidence."""
    _show(_ask("POST", url, "/rollout/start"), json)


@app.command()
def promote(url: Url = GATEWAY, json: Json = False) -> None:
    """Go to the next phase now, whatever is missing; refused where the candidate is shown to be worse."""
    _show(_ask("POST", url, "/rollout/promote"), json)


@app.command()
def pause(url: Url = GATEWAY, json: Json = False) -> None:
    """Stay in this phase; evidence may still roll back."""
    _show(_ask("POST", url, "/rollout/pause"), json)


@app.command()
def resume(url: Url = GATEWAY, json: Json = False) -> None:
    """End a pause."""
    _show(_ask("POST", url, "/rollout/resume"), json)


@app.command()
def rollback(url: Url = GATEWAY, json: Json = False) -> None:
    """Send the next request, and all after it, to the baseline."""
    _show(_ask("POST", url, "/rollout/rollback"), json)


def _ask(method: str, url: str, path: str) -> dict[str, Any]:
    import os

    import httpx

    from kvant.errors import RolloutError

    key = os.environ.get(KEY)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    where = f"{url.rstrip('/')}{path}"
    try:
        answer = httpx.request(method, where, headers=headers, timeout=WAIT)
        found: Any = answer.json()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise RolloutError(f"--url {url}: no gateway answers: {error}") from None
    if answer.status_code in (401, 403):
        wrong = "is not accepted, or has not the scope admin" if key else "is not set"
        raise RolloutError(f"{where}: the gateway wants an administrator's key, and {KEY} {wrong}")
    if answer.status_code == 404:
        raise RolloutError(f"--url {url}: no rollout there: a gateway without a candidate, or none (no /v1)")
    if answer.is_error or not isinstance(found, dict) or "quantities" not in found:
        detail = found.get("detail") if isinstance(found, dict) else None
        raise RolloutError(str(detail or f"{where}: status {answer.status_code}, not a rollout's"))
    return found


def _show(found: dict[str, Any], json: bool, whole: bool = False) -> None:
    from rich.console import Console

    from kvant.rollout.table import table

    console = Console(soft_wrap=True, width=WIDTH)
    if json:
        console.print_json(data=found)
    else:
        console.print(table(found, whole), highlight=False)
