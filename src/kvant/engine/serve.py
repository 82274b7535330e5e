"""`kvant serve`: one process from first byte to last, with the engine behind a door that is always there.

Order of a start: bind the port, answer probes, verify the weights, start vLLM in a thread, compare what
runs with what was configured, generate once, open. Order of an end: drain, close, stop the engine,
leave no process behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import sys
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import TYPE_CHECKING, Any

from kvant import __version__
from kvant.config import Settings
from kvant.engine import boot, children, table, traffic
from kvant.engine.boot import Engine
from kvant.engine.drain import drain
from kvant.engine.keys import Keys
from kvant.engine.probes import MetricsApp
from kvant.engine.server import Door
from kvant.engine.smoke import smoke
from kvant.engine.validation import install, item_check
from kvant.engine.verify import EngineReport, verify_engine
from kvant.errors import EngineError, KvantError
from kvant.http.listener import Listener
from kvant.http.logs import log_to_stderr
from kvant.http.stop import Stop
from kvant.recipes.traffic import Reservoir
from kvant.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from fastapi import FastAPI

log = logging.getLogger("kvant.server")

ENGINE_STOP_SECONDS = 10
WATCH_SECONDS = 1.0
COUNT_SECONDS = 5.0


def run(settings: Settings, *, behind_gateway: bool = False) -> int:
    """Serves until SIGTERM or SIGINT; 0 when it ended because it was asked to. Nobody is told how to ask an
    engine that stands behind a gateway.

    Raises `KvantError` when the service cannot start, or when its engine dies.
    """
    import uvloop

    log_to_stderr(settings.monitoring.log_level)
    service = Service(settings, behind_gateway)
    failure: KvantError | None = None
    try:
        uvloop.run(service.serve())
    except KvantError as error:
        log.debug("the service ends with an error", exc_info=True)
        # The frames of its traceback would keep the engine beyond the collection below.
        failure = error.with_traceback(None)
        failure.__cause__ = failure.__context__ = None
    finally:
        children.stop_all(0 if service.booting or service.insisted else ENGINE_STOP_SECONDS)
    if service.booting and failure is None:
        # The thread that starts vLLM cannot be interrupted, and waiting for it is not stopping.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
    # vLLM freezes the heap while it serves; an engine left to the end of the interpreter fails there.
    del service
    gc.unfreeze()
    gc.collect()
    if failure is not None:
        raise failure
    return 0


class Service:
    """Everything one process serves."""

    def __init__(self, settings: Settings, behind_gateway: bool = False) -> None:
        if settings.monitoring.sample_traffic is not None:
            traffic.require_place(settings.monitoring.sample_traffic)
        self._settings, self._behind_gateway = settings, behind_gateway
        self._metrics = Metrics()
        self._door = Door(settings, Keys.load(settings.security.api_key_file), self._metrics)
        self._stop = Stop()
        self.booting = True
        """Whether vLLM is still being started, in a thread of its own."""

    @property
    def insisted(self) -> bool:
        """Whether a second signal came."""
        return self._stop.insisted.is_set()

    async def serve(self) -> None:
        """Returns when asked to stop."""
        self._stop.install()
        async with self._listening():
            engine = await self._started()
            if engine is not None:
                async with self._running(engine):
                    beside = [asyncio.create_task(one) for one in self._beside(engine)]
                    try:
                        await self._until_asked(engine)
                    finally:
                        for task in beside:
                            task.cancel()
                        await asyncio.wait(beside)

    @contextlib.asynccontextmanager
    async def _listening(self) -> AsyncIterator[None]:
        serving = self._settings.serving
        listeners = [Listener(self._door, serving.host, serving.port, "serving.port")]
        if self._settings.monitoring.metrics_port is not None:
            port = self._settings.monitoring.metrics_port
            listeners.append(
                Listener(MetricsApp(self._metrics), "127.0.0.1", port, "monitoring.metrics_port")
            )
        tasks = [asyncio.create_task(listener.run_until_closed()) for listener in listeners]
        try:
            yield
        finally:
            await asyncio.gather(*(one.close(task) for one, task in zip(listeners, tasks, strict=True)))

    @contextlib.asynccontextmanager
    async def _running(self, engine: Engine) -> AsyncIterator[None]:
        try:
            report = await verify_engine(engine.client, engine.cache.spec)
            app = await _vllm_app(engine)
            async with app.router.lifespan_context(app):
                await smoke(app, engine.args.served_model_name[0])
                self._announce(engine, report)
                self._door.open(app, report, item_check())
                yield
                await drain(self._door, self._stop, self._settings.serving.drain_timeout)
        finally:
            if engine.client.output_handler is not None:
                # It would take the end of the engine for its death, and log so.
                engine.client.output_handler.cancel()
            seconds = 0 if self.insisted else ENGINE_STOP_SECONDS
            await asyncio.to_thread(engine.client.shutdown, timeout=seconds)

    async def _until_asked(self, engine: Engine) -> None:
        while not self._stop.asked.is_set():
            if engine.client.errored:
                self._door.become(self._door.state.fail("the engine has died"))
                raise EngineError("the engine has died; its last log lines tell why")
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._stop.asked.wait(), WATCH_SECONDS)

    def _beside(self, engine: Engine) -> Iterator[Coroutine[Any, Any, None]]:
        """What runs while requests are served."""
        yield self._count_seconds(engine)
        sample = self._settings.monitoring.sample_traffic
        if sample is not None:
            reservoir = Reservoir(engine.digest)
            traffic.listen(engine.client.engine_core, reservoir)
            log.info("a sample of the prompts is written to %s (monitoring.sample_traffic)", sample)
            yield traffic.keep_saving(reservoir, sample)

    async def _count_seconds(self, engine: Engine) -> None:
        begun, busy = -1, True
        while True:
            # Once more when all have ended, then not: a worker that was asked stays awake for a second.
            was_busy, busy = busy, self._door.begun != begun or self._door.slots.used > 0
            begun = self._door.begun
            if busy or was_busy:  # a worker answers between two steps, however long one takes
                self._metrics.count_seconds((await engine.client.collective_rpc("kvant_times"))[0])
                self._metrics.show_drift(await engine.client.collective_rpc("kvant_drift"))
            await asyncio.sleep(COUNT_SECONDS)

    async def _started(self) -> Engine | None:
        """The engine, or None when a signal came first."""
        loop = asyncio.get_running_loop()

        def waits_for(text: str) -> None:
            loop.call_soon_threadsafe(lambda: self._door.become(self._door.state.waiting(text)))

        start = asyncio.ensure_future(boot.in_thread(lambda: boot.start(self._settings, waits_for)))
        asked = asyncio.ensure_future(self._stop.asked.wait())
        await asyncio.wait({start, asked}, return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
        if not start.done():
            self._door.become(self._door.state.drain())
            start.cancel()
            return None
        self.booting = False
        return start.result()

    def _announce(self, engine: Engine, report: EngineReport) -> None:
        from rich.console import Console
        from vllm.v1.metrics.prometheus import get_prometheus_registry

        metrics, name = self._metrics, engine.args.served_model_name[0]
        metrics.bytes_per_token.set(report.bytes_per_token)
        metrics.effective_bits.set(report.effective_bits)
        metrics.build.info(
            {
                "version": __version__,
                "engine": engine.versions.distribution,
                "engine_version": engine.versions.vllm,
                "formats": report.formats,
                "kernel": report.kernel,
                "identity": report.digest,
                "preset": engine.cache.preset,
                "recipe": engine.cache.recipe.digest if engine.cache.recipe else "",
                "calibrated_layers": str(engine.cache.calibrated_layers),
            }
        )
        metrics.join(get_prometheus_registry())
        for note in engine.notes:
            print(f"warning: {note}", file=sys.stderr)
        facts = table.rows(
            self._settings,
            report,
            engine.cache,
            name=name,
            max_context=engine.client.model_config.max_model_len,
            engine=f"Kvant {__version__}, {engine.versions.distribution} {engine.versions.vllm}",
        )
        table.show(Console(), facts, "" if self._behind_gateway else table.example(self._settings, name))


async def _vllm_app(engine: Engine) -> FastAPI:
    """vLLM's own FastAPI app over the running engine, with our words for malformed requests."""
    from vllm.entrypoints.launchers.api_server.app_state import init_app_state
    from vllm.entrypoints.launchers.app import build_app

    client = engine.client
    await client.reset_mm_cache()
    tasks = await client.get_supported_tasks()
    app: FastAPI = build_app(engine.args, tasks, client.model_config)
    install(app, client.model_config.max_model_len)
    await init_app_state(client, app.state, engine.args, tasks)
    return app
