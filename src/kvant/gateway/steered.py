"""Is a request the browser's own idea? Where no keys are asked for, any web page could steer the gateway
through the browser of whoever runs it: by a form or script of its own (its Origin tells), or by a name of
its own that it lets point to this machine (the Host tells: DNS rebinding)."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.datastructures import Headers

from kvant.config.serving import is_loopback
from kvant.http import envelope
from kvant.http.body import Refused

OF_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data", "text/plain")
"""What a page may send anywhere without asking first."""


def check(headers: Headers) -> None:
    """`Refused` unless the request comes from a program, or from a page of this very gateway."""
    host = headers.get("host", "").lower()
    if not is_loopback(_name(host)):
        raise Refused(
            envelope.forbidden(
                "without security.key_file this answers to the names of this machine only, as localhost"
            )
        )
    origin = headers.get("origin")
    if origin is not None and origin.lower().partition("://")[2] != host:
        raise Refused(envelope.forbidden("another site's page may not steer this gateway"))
    if headers.get("content-type", "").partition(";")[0].strip().lower() in OF_FORMS:
        raise Refused(envelope.forbidden("a form may not steer this gateway: send application/json"))


def _name(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
