"""A running service as users and operators see it: over HTTP, and by its processes where they are here."""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import urlsplit

import httpx

from kvant.bench.serve.client import Broken, Stream, turn
from kvant.config.serving import is_loopback
from kvant.errors import EngineError
from kvant.quality.gate.client import Client, api_key
from kvant.telemetry.proc import Tree
from kvant.telemetry.scrape import Scrape

SECONDS = 60.0
MOST_BYTES = 16 << 20


@dataclass(frozen=True)
class Service:
    """`url` without `/v1`; `metrics_url` is that of /metrics. `longest` is prompt plus answer, tokens."""

    url: str
    model: str
    longest: int | None
    metrics_url: str
    key: str = field(default="", repr=False)
    patience: float = 600.0
    """Seconds without a byte after which a request counts as hung."""

    @classmethod
    def find(cls, url: str, metrics_url: str | None = None, model: str | None = None) -> Service:
        """Ask what is served there; `EngineError` where nothing answers. The key is the gate's."""
        base = url.rstrip("/").removesuffix("/v1")
        key = api_key()
        unnamed = cls(base, "", None, metrics_url or f"{base}/metrics", key)
        answer = unnamed.get("/v1/models")
        if answer.status_code != 200:
            raise EngineError(f"{base}/v1/models answers {answer.status_code}: {_line(answer.text)}")
        try:
            served: list[Mapping[str, Any]] = answer.json()["data"]
            known = {str(one["id"]): _longest(one.get("max_model_len")) for one in served}
        except (AttributeError, ValueError, KeyError, TypeError):
            raise EngineError(f"{base}/v1/models answers something else than a list of models") from None
        if model is None and len(known) != 1:
            raise EngineError(f"{base} serves {', '.join(known) or 'no model'}; name one with --model")
        name = model or next(iter(known))
        if name not in known:
            raise EngineError(f"{base} does not serve {name!r}; it serves {', '.join(known)}")
        return cls(base, name, known[name], unnamed.metrics_url, key)

    @property
    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.key}"} if self.key else {}

    @property
    def local(self) -> bool:
        return is_loopback(urlsplit(self.url).hostname or "")

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.request("GET", path, **options)

    def post(self, path: str, body: Mapping[str, Any], **options: Any) -> httpx.Response:
        return self.request("POST", path, json=dict(body), **options)

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        """`EngineError` where no answer comes; any status is an answer."""
        url = path if path.startswith("http") else self.url + path
        options.setdefault("headers", self.headers)
        try:
            return httpx.request(
                method, url, **{"timeout": SECONDS, "trust_env": False, "verify": trusted(), **options}
            )
        except httpx.HTTPError as error:
            raise EngineError(f"{url}: {type(error).__name__} {error}".rstrip()) from error
        except httpx.InvalidURL as error:
            raise EngineError(f"{url}: {error}") from error

    def ready(self) -> tuple[int, dict[str, Any]]:
        """Status and body of /ready; the body is empty where it is no JSON object."""
        answer = self.get("/ready")
        try:
            body = answer.json()
        except ValueError:
            body = {}
        return answer.status_code, body if isinstance(body, dict) else {}

    def scrape(self) -> Scrape:
        """`EngineError` where there are no metrics."""
        answer = self.get(self.metrics_url)
        if answer.status_code != 200:
            raise EngineError(f"{self.metrics_url} answers {answer.status_code}")
        try:
            return Scrape.of(answer.text[:MOST_BYTES])
        except ValueError as error:
            raise EngineError(f"{self.metrics_url}: is not Prometheus text: {error}") from error

    def processes(self) -> Tree | None:
        """None where it runs elsewhere, or as another user."""
        return Tree.listening(urlsplit(self.url).port or 80) if self.local else None

    def client(self) -> Client:
        return Client(self.url, self.model, self.patience)

    def stream(self, prompts: Sequence[str], tokens: int) -> list[Stream]:
        """All prompts at once, greedy answers of exactly so many tokens; `EngineError` where one fails."""
        try:
            return turn(self.url, prompts, tokens, self.model, self.headers, self.patience)
        except Broken as error:
            raise EngineError(f"{self.url} {error}") from error


def _line(text: str) -> str:
    """What a foreign server says, in a line."""
    return "a page of HTML" if text.lstrip().startswith("<") else " ".join(text.split())[:200]


def _longest(given: Any) -> int | None:
    if given is not None and (type(given) is not int or given < 1):
        raise ValueError("is no number of tokens")
    return given


@cache
def trusted() -> ssl.SSLContext:
    """The system's certificates, read once: that takes longer than a request."""
    return httpx.create_ssl_context(trust_env=False)
