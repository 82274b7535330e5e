"""The rollout over HTTP. Whoever mounts these routes lets nobody in without an administrator's key, and may
leave that key's id in `request.state.key`, which the history then names."""

from __future__ import annotations

from http import HTTPStatus
from typing import get_args

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from kvant.errors import RolloutError, StoreError
from kvant.rollout.controller import Controller
from kvant.rollout.state import Command

NOBODY = "an administrator"


def routes(controller: Controller) -> list[Route]:
    """`GET /rollout` and `POST /rollout/{start,pause,resume,promote,rollback}`; each answers with the
    status."""

    async def show(_: Request) -> Response:
        return JSONResponse(controller.status())

    def command(request: Request) -> Response:
        # Not a coroutine: it waits for the store, so it runs in a thread.
        name = request.url.path.rpartition("/")[2]
        try:
            return JSONResponse(controller.command(name, getattr(request.state, "key", "") or NOBODY))
        except StoreError as error:
            return _problem(HTTPStatus.SERVICE_UNAVAILABLE, str(error), {"Retry-After": "1"})
        except RolloutError as error:
            return _problem(HTTPStatus.CONFLICT, str(error))

    commands = [Route(f"/rollout/{name}", command, methods=["POST"]) for name in get_args(Command)]
    return [Route("/rollout", show, methods=["GET"]), *commands]


def _problem(status: HTTPStatus, detail: str, headers: dict[str, str] | None = None) -> Response:
    """RFC 9457."""
    body = {"type": "about:blank", "title": status.phrase, "status": status.value, "detail": detail}
    return JSONResponse(body, status, headers, media_type="application/problem+json")
