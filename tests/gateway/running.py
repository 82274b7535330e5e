"""A real gateway on a real socket, in a thread of its own."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from typing import Any

import httpx
import openai

from kvant.gateway.app import Gateway
from kvant.gateway.serve import listening
from kvant.gateway.settings import GatewaySettings
from tests.gateway.engine import MODEL, Engine

HELLO: list[dict[str, Any]] = [{"role": "user", "content": "hello there"}]


def settings(
    baseline: list[Engine], candidate: list[Engine] | None = None, **sections: Any
) -> GatewaySettings:
    arms: dict[str, Any] = {"baseline": {"urls": [one.url for one in baseline]}}
    if candidate:
        arms["candidate"] = {"urls": [one.url for one in candidate]}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        sections["listen"] = {"port": free.getsockname()[1], **sections.get("listen", {})}
    return GatewaySettings.model_validate({"arms": arms, **sections})


class Running:
    """`with Running(settings, plug) as gateway:`; `plug(gateway)` sets its roles."""

    def __init__(
        self, settings: GatewaySettings, plug: Callable[[Gateway], object] = lambda gateway: None
    ) -> None:
        self.gateway = Gateway(settings)
        plug(self.gateway)
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._failure: BaseException | None = None

    async def _serve(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        try:
            async with self.gateway.running() as door, listening(self.gateway, door) as listener:
                self.port = listener.port
                self._ready.set()
                await self._stop.wait()
                await door.drain(0.0, asyncio.Event())
        except BaseException as error:
            self._failure = error
            self._ready.set()

    def __enter__(self) -> Running:
        self._thread.start()
        assert self._ready.wait(10)
        if self._failure is not None:
            raise self._failure
        return self

    def __exit__(self, *raised: object) -> None:
        self.loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(15)
        assert not self._thread.is_alive()
        if self._failure is not None and not raised[0]:
            raise self._failure

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def call(self, coroutine: Any, seconds: float = 10) -> Any:
        """Run a coroutine in the gateway's loop and wait for it."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(seconds)

    def post(self, body: dict[str, Any], path: str = "/v1/chat/completions", **asked: Any) -> httpx.Response:
        return httpx.post(self.url + path, json={"model": MODEL, **body}, timeout=20, **asked)

    def client(self, key: str = "none", **asked: Any) -> openai.OpenAI:
        return openai.OpenAI(base_url=self.url + "/v1", api_key=key, max_retries=0, **asked)
