"""The page's own files, read once; the browser is told to run and load nothing else."""

from __future__ import annotations

from importlib import resources

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

KINDS = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'none'; base-uri 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}


def routes() -> list[Route]:
    """`/console` is the page, `/console/NAME` each of its files."""
    folder = resources.files(__package__) / "static"
    return [_route(file.name, file.read_bytes()) for file in folder.iterdir()]


def _route(name: str, content: bytes) -> Route:
    kind = KINDS[name.rpartition(".")[2]]

    async def show(_: Request) -> Response:
        return Response(content, media_type=kind, headers=HEADERS)

    return Route("/console" if name == "index.html" else f"/console/{name}", show, methods=["GET"])
