"""`kvant gateway`: one process from first byte to last."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import resource
from collections.abc import AsyncIterator, Iterator

from starlette.types import Receive, Scope, Send

from kvant.gateway import table
from kvant.gateway.app import Gateway
from kvant.gateway.door import Door
from kvant.http.certificate import Certificate
from kvant.http.listener import Listener
from kvant.http.logs import log_to_stderr
from kvant.http.stop import Stop

log = logging.getLogger("kvant.gateway")


def run(gateway: Gateway) -> int:
    """Serves until SIGTERM or SIGINT; 0 when it ended because it was asked to."""
    import uvloop

    log_to_stderr(gateway.settings.monitoring.log_level)
    _allow_connections()
    gc.collect()
    gc.freeze()  # what is loaded stays: no collection has to look at it while tokens wait
    uvloop.run(serve(gateway))
    return 0


def _allow_connections() -> None:
    """Every stream takes two: as many as the system lets this process have."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def serve(gateway: Gateway) -> None:
    """Returns when asked to stop, after draining."""
    stop = Stop()
    stop.install()
    async with gateway.running() as door, listening(gateway, door) as listener:
        table.show(gateway, _url(gateway, listener))
        await stop.asked.wait()
        log.info("draining: %d requests, up to %g s", door.quotas.used, gateway.settings.listen.drain_timeout)
        await door.drain(gateway.settings.listen.drain_timeout, stop.insisted)


@contextlib.asynccontextmanager
async def listening(gateway: Gateway, door: Door) -> AsyncIterator[Listener]:
    """The listener of the API, started; and that of /metrics where it has a port of its own."""
    listen = gateway.settings.listen
    certificate = None
    if listen.tls_certificate is not None and listen.tls_key is not None:
        certificate = Certificate(listen.tls_certificate, listen.tls_key)
    main = Listener(door, listen.host, listen.port, "listen.port", certificate)
    listeners = [main, *_metrics(gateway)]
    tasks = [asyncio.create_task(one.run_until_closed()) for one in listeners]
    fresh = asyncio.create_task(certificate.keep_fresh()) if certificate is not None else None
    while not all(one.started for one in listeners):
        await asyncio.sleep(0.005)
    log.info("listening on %s", _url(gateway, main))
    try:
        yield main
    finally:
        if fresh is not None:
            fresh.cancel()
        await asyncio.gather(*(one.close(task) for one, task in zip(listeners, tasks, strict=True)))


def _url(gateway: Gateway, listener: Listener) -> str:
    listen = gateway.settings.listen
    host = f"[{listen.host}]" if ":" in listen.host else listen.host
    return f"http{'' if listen.tls_certificate is None else 's'}://{host}:{listener.port}"


def _metrics(gateway: Gateway) -> Iterator[Listener]:
    port = gateway.settings.monitoring.metrics_port
    if port is not None:
        yield Listener(_MetricsApp(gateway), "127.0.0.1", port, "monitoring.metrics_port")


class _MetricsApp:
    """/metrics alone, without a key."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._gateway.door.metrics(scope["path"])(scope, receive, send)
