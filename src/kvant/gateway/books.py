"""What is written down of requests: metrics for all, a row of the audit log where one is kept."""

from __future__ import annotations

import time
from collections.abc import Mapping

from starlette.datastructures import Headers
from starlette.responses import Response

from kvant.gateway.admission.line import ORDER, Line
from kvant.gateway.arms.arm import Arm
from kvant.gateway.audit import row
from kvant.gateway.audit.log import AuditLog
from kvant.gateway.call import Served
from kvant.gateway.keys.key import Key
from kvant.http.envelope import Refusal
from kvant.http.request import sound_id
from kvant.telemetry.gateway import GatewayMetrics

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Books:
    """Written to once for each request, whatever becomes of it."""

    def __init__(self, metrics: GatewayMetrics, audit: AuditLog | None, prompts: bool) -> None:
        self.metrics, self._audit, self._prompts = metrics, audit, prompts

    def ended(self, served: Served, address: str, headers: Headers) -> None:
        """An arm was asked, and the client has its answer or is gone."""
        self.metrics.served(
            served.arm,
            served.error or "ok",
            served.first,
            served.gaps,
            served.prompt_tokens,
            served.tokens,
        )
        if self._audit is not None:
            client_id = sound_id(headers.get("x-request-id")) or ""
            self._audit.write(row.ended(served, address, client_id, self._prompts))

    def refused(
        self, refusal: Refusal, call_id: str, key: Key | None, address: str, path: str, headers: Headers
    ) -> None:
        """The request was not let in."""
        self.metrics.rejected.labels(refusal.reason).inc()
        if self._audit is not None:
            client_id = sound_id(headers.get("x-request-id")) or ""
            key_id = key.id if key else ""
            self._audit.write(row.refused(refusal, call_id, key_id, address, path, client_id))

    def steered(
        self,
        method: str,
        call_id: str,
        key: Key | None,
        address: str,
        path: str,
        status: int,
        headers: Headers,
    ) -> None:
        """The gateway itself was told to do something, as to promote or to roll back."""
        if self._audit is not None:
            client_id = sound_id(headers.get("x-request-id")) or ""
            self._audit.write(
                row.steered(method, call_id, key.id if key else "", address, path, status, client_id)
            )

    def look(self, arms: Mapping[str, Arm], lines: Mapping[str, Line], ready: bool) -> None:
        """Brings the gauges to what is so now."""
        metrics, now = self.metrics, time.monotonic()
        metrics.ready.set(ready)
        metrics.lost.set(self._audit.lost if self._audit else 0)
        for name, arm in arms.items():
            metrics.inflight.labels(name).set(lines[name].running)
            metrics.slots.labels(name).set(arm.slots())
            metrics.up.labels(name).set(sum(one.up(now) for one in arm.replicas))
            metrics.kv.labels(name).set(max(one.kv for one in arm.replicas))
            for priority in ORDER:
                metrics.queue.labels(name, priority).set(lines[name].waiting(priority))

    def response(self) -> Response:
        return Response(self.metrics.render(), media_type=METRICS_TYPE)
