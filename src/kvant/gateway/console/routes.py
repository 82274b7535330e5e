"""The console as an app of the gateway: files for everybody, data for administrators."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from kvant.gateway.app import Gateway
from kvant.gateway.console import files
from kvant.gateway.console.view import View

PRIVATE = {"cache-control": "no-store", "x-content-type-options": "nosniff"}


def mount(gateway: Gateway, view: View) -> None:
    """`/console`, which holds nothing, and `/console/data` and below, which need an administrator's key."""
    gateway.mount("/console", Starlette(routes=files.routes()), scope=None)
    gateway.mount("/console/data", Starlette(routes=_routes(view)))


def _routes(view: View) -> list[Route]:
    async def data(_: Request) -> Response:
        return _answer(view.data())

    async def examples(_: Request) -> Response:
        return _answer(view.examples())

    async def delete(request: Request) -> Response:
        there = view.delete(request.path_params["id"])
        return Response(status_code=HTTPStatus.NO_CONTENT if there else HTTPStatus.NOT_FOUND)

    return [
        Route("/console/data", data, methods=["GET"]),
        Route("/console/data/examples", examples, methods=["GET"]),
        Route("/console/data/examples/{id}", delete, methods=["DELETE"]),
    ]


def _answer(content: Any) -> Response:
    return JSONResponse(content, headers=PRIVATE)
