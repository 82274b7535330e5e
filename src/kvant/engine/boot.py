"""From settings to a running vLLM engine, in a thread, because it takes seconds to minutes.

The event loop stays free for probes meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import resource_tracker
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from kvant import models
from kvant.config import Settings
from kvant.engine import arguments, environment, orphans, versions
from kvant.engine.chosen import Chosen, Report, choose
from kvant.errors import EngineError, KvantError, ModelError
from kvant.models import manifest
from kvant.models.resolve import PACKAGED

if TYPE_CHECKING:
    from vllm.config import VllmConfig
    from vllm.v1.engine.async_llm import AsyncLLM

T = TypeVar("T")

NO_HUB = f"Without the hub there are {PACKAGED}, and any model folder of yours."


@dataclass(frozen=True)
class Engine:
    """vLLM, started, and the arguments it was started with."""

    client: AsyncLLM
    args: Namespace
    versions: versions.Versions
    cache: Chosen
    digest: str
    """Of the model's files; "" for a hub id."""
    notes: tuple[str, ...]
    """What the user should know about how it was started."""


def start(settings: Settings, report: Report = lambda text: None) -> Engine:
    """Verify the model, choose its cache, start vLLM on it. Blocks; `KvantError` names what is in the way.

    `report` hears what a start waits for, where it is more than vLLM.
    """
    found = versions.check()
    model, digest = models.resolve(settings.model.path), ""
    local = isinstance(model, Path)
    if isinstance(model, Path):
        digest = manifest.verify(model, settings.model.trust)
    elif not settings.model.trust:
        raise ModelError(
            f"model.trust is false, but {model!r} is a hub id: vLLM fetches its files itself and no manifest "
            "covers them; download the model and set model.path to its folder"
        )
    cache = choose(settings, model, digest, report)
    notes = [*environment.conflicts(settings), *cache.notes]
    environment.apply(environment.defaults(settings, cpu=found.cpu, local_model=local))
    os.environ[orphans.PARENT] = str(os.getpid())

    args = arguments.parse(
        arguments.options(
            settings,
            str(model),
            cache.spec,
            served_name=settings.model.served_name or Path(settings.model.path).name,
            cpu=found.cpu,
            env=dict(os.environ),
        )
    )
    return Engine(_launch(args, local), args, found, cache, digest, tuple(notes))


def _launch(args: Namespace, local: bool) -> AsyncLLM:
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.usage.usage_lib import UsageContext
    from vllm.v1.engine.async_llm import AsyncLLM

    try:
        engine_args = AsyncEngineArgs.from_cli_args(args)
        config = engine_args.create_engine_config(usage_context=UsageContext.OPENAI_API_SERVER)
        _require_room(config)
        return AsyncLLM.from_vllm_config(
            config,
            usage_context=UsageContext.OPENAI_API_SERVER,
            enable_log_requests=engine_args.enable_log_requests,
            disable_log_stats=engine_args.disable_log_stats,
        )
    except KvantError:
        raise
    except Exception as error:
        # Causes inside vLLM's processes are only in their log lines; its own words come with ours.
        hub = "" if local or not isinstance(error, OSError) else f"\n{NO_HUB}"
        raise EngineError(f"vLLM did not start: {error}{hub}") from error


def _require_room(config: VllmConfig) -> None:
    """Refuses a longest request that can never fit the pages, which vLLM would find 20 seconds later."""
    model, cache = config.model_config, config.cache_config
    windows = model.get_sliding_window() or model.is_hybrid
    if cache.num_gpu_blocks_override is None or model.original_max_model_len == arguments.AUTO_FIT or windows:
        return
    room = (cache.num_gpu_blocks_override - 1) * cache.block_size
    if model.max_model_len > room:
        raise EngineError(
            f"serving.max_context: {model.max_model_len} tokens do not fit kv_cache.max_cache_blocks "
            f"{cache.num_gpu_blocks_override}, which hold {room} (one block is kept back): raise it, "
            "or leave serving.max_context out to serve as much as fits"
        )


async def in_thread(work: Callable[[], T]) -> T:
    """`work()` in a thread whose children never see Ctrl-C.

    A terminal sends SIGINT to every process of the group; an engine that got it would drop the streams
    that draining lets finish. The blocked signal is inherited by the processes the thread starts.
    """
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()
    waiting = [result]

    def run() -> None:
        # Starting the tracker would unblock the signal again, so it is started before.
        resource_tracker.ensure_running()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        # No local may hold the outcome: an import error that vLLM keeps holds this frame, and an engine
        # that lives until the interpreter ends complains there.
        with contextlib.suppress(RuntimeError):  # The loop is closed: the service ended without waiting.
            loop.call_soon_threadsafe(_settle, waiting.pop(), *_outcome(work))

    threading.Thread(target=run, name="kvant-boot", daemon=True).start()
    return await result


def _outcome(work: Callable[[], T]) -> tuple[T | None, BaseException | None]:
    try:
        return work(), None
    except BaseException as error:
        return None, error


def _settle(result: asyncio.Future[T], value: T | None, error: BaseException | None) -> None:
    if result.done():
        return
    if error is not None:
        result.set_exception(error)
    else:
        result.set_result(value)  # type: ignore[arg-type]
