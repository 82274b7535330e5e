"""URLs that a person writes on a command line: usable, or refused with the one that was probably meant."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from kvant.config.words import show
from kvant.errors import ConfigError

SCHEMES = ("http://", "https://")
_HOST = re.compile(r"(localhost|[\w-]+(\.[\w-]+)+|[\w-]+(?=:\d)|\[[0-9a-fA-F:]+\])(:\d+)?(/\S*)?")


def is_url(text: str) -> bool:
    return text.startswith(SCHEMES)


def meant(text: str) -> str | None:
    """The URL of what looks like one without its scheme: `127.0.0.1:8080`, `localhost/v1`."""
    return f"http://{text}" if _HOST.fullmatch(text) else None


def check(text: str | None, flag: str) -> None:
    """`ConfigError` names the flag, what it says and a suggestion; None is nothing to look at."""
    if text is None:
        return
    close = meant(text)
    hint = f"did you mean {close}?" if close else "expected http://HOST:PORT"
    if not is_url(text):
        raise ConfigError(f"{flag}: {show(text)} is no URL; {hint}")
    try:
        found = urlsplit(text)
        host, _ = found.hostname, found.port
    except ValueError as error:
        raise ConfigError(f"{flag}: {show(text)} is no URL: {error}; {hint}") from None
    if not host:
        raise ConfigError(f"{flag}: {show(text)} names no host; {hint}")
