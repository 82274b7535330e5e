"""A gateway, or an engine, in a process of its own: to be killed."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import openai

from tests.e2e.server import free_port
from tests.gateway.engine import MODEL

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.gateway.killable", "kvant.gateway.release", "tests.gateway.engine"])
QUICK = {"dwell": 0.0, "compared": 1_000_000, "served": 0}
"""A step that nobody but a person leaves."""


class Killable:
    """One process that listens; `start` again after `kill`, on the same port."""

    def __init__(self, run: Any, *arguments: Any) -> None:
        self.port = free_port()
        self._run, self._arguments = run, arguments
        self._http = httpx.Client(base_url=self.url, timeout=10, trust_env=False)

    def start(self) -> None:
        self.process = CONTEXT.Process(target=self._run, args=(self.port, *self._arguments), daemon=True)
        self.process.start()
        until(lambda: self._answers(), 20)

    def kill(self) -> None:
        self.process.kill()
        self.process.join()

    def close(self) -> None:
        self._http.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def _answers(self) -> bool:
        try:
            return self._http.get("/health").is_success
        except httpx.TransportError:
            assert self.process.is_alive(), "it ended by itself"
            return False


class Gateway(Killable):
    """`kvant gateway` with these sections; steps of 5 and 50 % that only commands leave."""

    def __init__(self, state: str, arms: dict[str, list[str]], **sections: Any) -> None:
        rollout = {
            "state": state,
            "shadow": {"weight": 0.0, **QUICK},
            "canary": [{"weight": 0.05, **QUICK}, {"weight": 0.5, **QUICK}],
        }
        named = {name: {"urls": urls} for name, urls in arms.items()}
        super().__init__(_gateway, {"arms": named, "rollout": rollout, **sections})
        self._client = openai.OpenAI(base_url=f"{self.url}/v1", api_key="none", max_retries=0, timeout=20)

    def close(self) -> None:
        super().close()
        self._client.close()

    def status(self) -> dict[str, Any]:
        return dict(self._http.get("/rollout").json())

    def command(self, name: str) -> int:
        return self._http.post(f"/rollout/{name}").status_code

    def ask(self, user: str, tokens: int = 4, stream: bool = False) -> str:
        """Asks as a user does: ok, or what the client was told."""
        words: list[dict[str, Any]] = [{"role": "user", "content": "hello there"}]
        try:
            answer: Any = self._client.chat.completions.create(
                model=MODEL, messages=words, user=user, max_tokens=tokens, stream=stream
            )
            finish = [one.choices[0].finish_reason for one in answer if one.choices] if stream else []
            return "ok" if not stream or finish[-1] == "length" else f"finish {finish[-1]}"
        except openai.APIStatusError as error:
            return f"status {error.status_code}"
        except openai.APIConnectionError:
            return "no connection"
        except openai.APIError:
            return "error in the stream"
        except httpx.RemoteProtocolError:
            return "cut"


@contextmanager
def running(one: Killable) -> Iterator[Killable]:
    one.start()
    try:
        yield one
    finally:
        one.kill()
        one.close()


def engine(per_token: float = 0.002) -> Killable:
    return Killable(_engine, per_token)


def until(done: Any, seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def _gateway(port: int, sections: dict[str, Any]) -> None:
    from kvant.gateway.app import Gateway as App
    from kvant.gateway.release import Release
    from kvant.gateway.serve import run
    from kvant.gateway.settings import GatewaySettings

    settings = GatewaySettings.model_validate({**sections, "listen": {"port": port}})
    gateway = App(settings)
    assert settings.arms.candidate is not None
    Release(gateway, settings.arms.candidate)
    run(gateway)


def _engine(port: int, per_token: float) -> None:
    import uvicorn

    from tests.gateway.engine import Engine, config, listening

    uvicorn.Server(config(Engine(per_token).app())).run([listening(port)])
