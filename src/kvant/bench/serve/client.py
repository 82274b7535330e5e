"""One turn: all streams of a case sent at once to one server, and when each token came back."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import httpx

from kvant.bench.serve.sides import SERVED

SILENCE = 3600.0
"""Seconds without a byte after which a server counts as hung: longer than any queue of ours."""


class Broken(Exception):
    """A server did not answer as it must; the message says how."""


@dataclass
class Stream:
    """When a request was sent and when its tokens arrived, in seconds of one clock."""

    sent: float
    arrivals: list[tuple[float, int]] = field(default_factory=list)
    """(time, tokens) of each chunk that carried tokens."""

    @property
    def tokens(self) -> int:
        return sum(count for _, count in self.arrivals)


Prompt = str | Sequence[int]
"""Text, or token ids."""


def turn(
    url: str,
    prompts: Sequence[Prompt],
    output: int,
    model: str = SERVED,
    headers: Mapping[str, str] | None = None,
    silence: float = SILENCE,
) -> list[Stream]:
    """Send all prompts at once; greedy answers of exactly `output` tokens. Raises `Broken`."""
    return asyncio.run(_turn(url, prompts, output, model, headers or {}, silence))


async def _turn(
    url: str,
    prompts: Sequence[Prompt],
    output: int,
    model: str,
    headers: Mapping[str, str],
    silence: float,
) -> list[Stream]:
    timeout = httpx.Timeout(silence, connect=30)
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(
        base_url=url, timeout=timeout, limits=limits, trust_env=False, headers=headers
    ) as client:
        tasks = [asyncio.ensure_future(stream(client, prompt, output, model)) for prompt in prompts]
        try:
            return await asyncio.gather(*tasks)
        except httpx.HTTPError as error:
            raise Broken(f"broke off: {type(error).__name__} {error}".rstrip()) from error
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def stream(client: httpx.AsyncClient, prompt: Prompt, output: int, model: str) -> Stream:
    """One request, streamed. Raises `Broken`, and httpx's own errors."""
    body = {
        "model": model,
        "prompt": prompt if isinstance(prompt, str) else list(prompt),
        "max_tokens": output,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "return_token_ids": True,
    }
    content = json.dumps(body)
    found = Stream(time.perf_counter())
    headers = {"content-type": "application/json"}
    async with client.stream("POST", "/v1/completions", content=content, headers=headers) as response:
        if not response.is_success:
            text = (await response.aread()).decode(errors="replace")
            raise Broken(f"answered {response.status_code}: {text[:500]}")
        async for line in response.aiter_lines():
            now = time.perf_counter()
            if not line.startswith("data: ") or line == "data: [DONE]":
                continue
            try:
                chunk = json.loads(line[len("data: ") :])
                if "error" in chunk:
                    raise Broken(f"failed while it answered: {chunk['error']}")
                count = sum(len(choice.get("token_ids") or ()) for choice in chunk["choices"])
            except (AttributeError, KeyError, TypeError, ValueError):
                raise Broken(f"streamed what is no chunk of OpenAI's API: {line[:200]}") from None
            if count:
                found.arrivals.append((now, count))
    if found.tokens != output:
        raise Broken(f"answered {found.tokens} tokens where {output} were asked for")
    return found
