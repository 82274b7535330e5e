"""vLLM's app, with error messages that name the field and the fault and never repeat the input."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, get_args, get_origin

import pydantic
from fastapi.exceptions import RequestValidationError
from starlette.requests import Request
from starlette.responses import Response

from kvant.http import envelope
from kvant.http.body import Refused

if TYPE_CHECKING:
    from fastapi import FastAPI

SHOWN = 5
"""Errors described; of the rest only the number is told."""


def install(app: FastAPI, max_context: int) -> None:
    """Replaces the handlers of validation errors; to be called before the app's first request."""
    from vllm.exceptions import VLLMValidationError

    app.add_exception_handler(RequestValidationError, malformed)
    app.add_exception_handler(pydantic.ValidationError, malformed)
    app.add_exception_handler(VLLMValidationError, refusing(max_context))
    # One of vLLM's dependencies has built the stack already, with the handlers of that time.
    app.middleware_stack = app.build_middleware_stack()


def item_check() -> Callable[[str, dict[str, Any]], None]:
    """A check of request items that stops at the first bad one.

    Every item of /v1/responses is tried against some 230 shapes. Pydantic would report all of them for
    all items, which stops the event loop for seconds.
    """
    from vllm.entrypoints.openai.responses.protocol import ResponsesRequest

    annotation = ResponsesRequest.model_fields["input"].annotation
    (items,) = (one for one in get_args(annotation) if get_origin(one) is list)
    adapter = pydantic.TypeAdapter(get_args(items)[0])

    def check(path: str, parsed: dict[str, Any]) -> None:
        given = parsed.get("input")
        if path != "/v1/responses" or not isinstance(given, list):
            return
        for n, item in enumerate(given):
            try:
                adapter.validate_python(item)
            except pydantic.ValidationError:
                place = f"input.{n}"
                raise Refused(envelope.bad_request(f"{place} is no item of a response", place)) from None

    return check


async def malformed(_: Request, error: Exception) -> Response:
    """A body, or a part that vLLM validates later, that does not have the shape of the request."""
    assert isinstance(error, RequestValidationError | pydantic.ValidationError)
    found = [_describe(one) for one in error.errors()]
    text = "; ".join(f"{place}: {fault}" if place else fault for place, fault in found[:SHOWN])
    if len(found) > SHOWN:
        text += f"; and {len(found) - SHOWN} more"
    return envelope.bad_request(text or "the request is malformed", found[0][0] if found else None).response()


def refusing(max_context: int) -> Callable[[Request, Exception], Awaitable[Response]]:
    """The handler of values that vLLM does not accept."""

    async def refused(request: Request, error: Exception) -> Response:
        # Its `value`, which may be the prompt, is left out.
        message = str(error.args[0]) if error.args else "the request is malformed"
        parameter = getattr(error, "parameter", None)
        if parameter == "max_tokens" and getattr(error, "value", None) == 0 and await _left_open(request):
            message = (
                f"the prompt has {max_context} tokens, this model's maximum context length is {max_context}: "
                "no token is left for an answer"
            )
            parameter = "prompt"
        return envelope.bad_request(message, parameter).response()

    return refused


async def _left_open(request: Request) -> bool:
    """Whether it was not the client who asked for no tokens."""
    body = await request.json()
    return all(body.get(name) != 0 for name in ("max_tokens", "max_completion_tokens", "max_output_tokens"))


def _describe(one: Any) -> tuple[str, str]:
    if not isinstance(one, dict):
        return "", str(one)[:200]
    from vllm.entrypoints.serve.exception_handling.handlers.validation import clean_loc_for_param

    place = clean_loc_for_param(tuple(one.get("loc", ())))
    return place[:200], str(one.get("msg", "is wrong"))[:200]
