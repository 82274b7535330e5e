"""`/health`: the process lives. `/ready`: it can answer, or why it cannot. `/metrics`: what it counts."""

from __future__ import annotations

from typing import Any

from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from kvant.engine.verify import EngineReport
from kvant.http.state import State
from kvant.telemetry.metrics import Metrics

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def health() -> Response:
    """200 as long as the event loop runs: a restart is the only mend for anything else."""
    return JSONResponse({"status": "alive"})


def ready(state: State, report: EngineReport | None) -> Response:
    """200 when the engine is up, verified and not draining; else 503 with the reason."""
    answer: dict[str, Any] = {"status": state.phase.value}
    if state.reason:
        answer["reason"] = state.reason
    if report is not None:
        answer |= {
            "formats": report.formats,
            "identity": report.digest,
            "bytes_per_token": report.bytes_per_token,
            "tokens": report.tokens,
        }
    if state.ready:
        return JSONResponse(answer)
    return JSONResponse(answer, 503, {"Retry-After": "5"})


def metrics(source: Metrics) -> Response:
    return Response(source.render(), media_type=METRICS_TYPE)


class MetricsApp:
    """`/metrics` alone, for a port of its own."""

    def __init__(self, source: Metrics) -> None:
        self._source = source

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            found = scope["path"] == "/metrics"
            response = metrics(self._source) if found else Response(status_code=404)
            await response(scope, receive, send)
