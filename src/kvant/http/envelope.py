"""Refusals, in OpenAI's error envelope: why a request is not answered, and when to come back."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from starlette.responses import JSONResponse, Response

MAX_MESSAGE = 1000
"""Characters of an error message; with escapes, the body stays below 8 KB."""


@dataclass(frozen=True)
class Refusal:
    """An answer other than success. `reason` is the label of kvant_requests_rejected_total."""

    status: int
    reason: str
    kind: str
    message: str
    param: str | None = None
    retry_after: int | None = None

    def body(self) -> dict[str, Any]:
        message = self.message
        if len(message) > MAX_MESSAGE:
            message = message[: MAX_MESSAGE - 12] + " [truncated]"
        error = {"message": message, "type": self.kind, "param": self.param, "code": self.status}
        return {"error": error}

    def headers(self) -> dict[str, str]:
        headers = {}
        if self.retry_after is not None:
            headers["Retry-After"] = str(self.retry_after)
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        if self.status in (408, 413, 503) or self.reason == "framing":
            # The rest of the body is not read, or the process is about to go: do not reuse the connection.
            headers["Connection"] = "close"
        return headers

    def encoded(self) -> bytes:
        return json.dumps(self.body()).encode()

    def response(self) -> Response:
        return JSONResponse(self.body(), self.status, self.headers())

    def event(self) -> bytes:
        """The same refusal for a stream that has begun: an error event, then the end of the stream."""
        return b"data: " + self.encoded() + b"\n\ndata: [DONE]\n\n"


def bad_request(message: str, param: str | None = None) -> Refusal:
    return Refusal(400, "malformed", "BadRequestError", message, param)


def two_lengths() -> Refusal:
    message = "Content-Length stands beside Transfer-Encoding"
    return Refusal(400, "framing", "BadRequestError", message)


def too_large(limit: int) -> Refusal:
    return Refusal(413, "too_large", "RequestTooLargeError", f"the request body is over {limit} bytes")


def slow_body(seconds: float) -> Refusal:
    return Refusal(408, "slow_body", "TimeoutError", f"the request body did not arrive in {seconds:g} s")


def unauthorised() -> Refusal:
    return Refusal(
        401, "unauthorised", "AuthenticationError", "a valid API key is needed: Authorization: Bearer"
    )


def forbidden(message: str) -> Refusal:
    return Refusal(403, "forbidden", "PermissionDeniedError", message)


def not_found(path: str) -> Refusal:
    return Refusal(404, "not_found", "NotFoundError", f"{path[:100]} is not served here")


def wrong_method(method: str, path: str) -> Refusal:
    return Refusal(405, "method", "MethodNotAllowedError", f"{method[:20]} is not for {path}")


def busy(limit: int) -> Refusal:
    message = f"{limit} requests are in flight, the limit of serving.max_concurrency; try again"
    return Refusal(429, "busy", "RateLimitError", message, retry_after=1)


def unavailable(reason: str, message: str) -> Refusal:
    return Refusal(503, reason, "ServiceUnavailableError", message, retry_after=5)


def timed_out(seconds: float, field: str = "serving.timeout") -> Refusal:
    message = f"the request took longer than {field}, {seconds:g} s, and was stopped"
    return Refusal(504, "timeout", "TimeoutError", message)


def bad_gateway(message: str) -> Refusal:
    return Refusal(502, "arm", "BadGatewayError", message)


def internal(request_id: str) -> Refusal:
    message = f"internal error; the log names it under request {request_id}"
    return Refusal(500, "internal", "InternalServerError", message)


def understood(status: int, body: bytes, request_id: str) -> Refusal:
    """vLLM's error as a refusal; a message of its own making is never passed on for a 500."""
    if status >= 500 and status != 503:
        return internal(request_id)
    try:
        error = json.loads(body)
    except (ValueError, RecursionError):
        error = {}
    detail = error.get("error", error) if isinstance(error, dict) else {}
    detail = detail if isinstance(detail, dict) else {"message": detail}
    message = detail.get("message") or detail.get("detail") or "the request was refused"
    kind = detail.get("type") or ("NotFoundError" if status == 404 else "BadRequestError")
    retry_after = 5 if status in (429, 503) else None
    return Refusal(status, "engine", str(kind), str(message), _text(detail.get("param")), retry_after)


def _text(value: object) -> str | None:
    return None if value is None else str(value)[:200]
