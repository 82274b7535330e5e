"""What an arm expects at each token of a given answer: /tokenize, then /v1/completions with prompt_logprobs.

Both are vLLM's (0.32). A conversation becomes token ids by the baseline's own template; both arms then read
the same ids. vLLM does not read its prefix cache for such a request: all of it is computed anew.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kvant.errors import EngineError
from kvant.gateway.answers import mirror
from kvant.gateway.answers.settings import Comparing
from kvant.gateway.call import Call
from kvant.gateway.roles import Asker
from kvant.quality.gate.client import Unable

TEMPLATE = ("messages", "tools", "chat_template", "add_generation_prompt", "continue_final_message",
            "add_special_tokens")  # fmt: skip
"""Fields of a chat that its template sees, and /tokenize takes."""
SINKS = 4
"""First tokens of a prompt, kept where its middle is left out: every later one attends to them."""


@dataclass(frozen=True)
class Reading:
    """Token ids that both arms read; from `first` on they are the answer's."""

    ids: Sequence[int]
    first: int


@dataclass(frozen=True)
class Expected:
    """Likeliest tokens of one position, log-probabilities in nats, and how they are spelt."""

    likely: Mapping[int, float]
    words: Mapping[int, str]


class Scorer:
    def __init__(self, asker: Asker, settings: Comparing) -> None:
        self._asker, self._settings = asker, settings

    async def reading(self, arm: str, call: Call, text: str) -> Reading:
        """The call's prompt and this answer to it as tokens, both within the bounds of `Comparing`."""
        prompt = await self._prompt(arm, call)
        answer = await self._tokens(arm, call, {"prompt": text, "add_special_tokens": False})
        most = self._settings.prompt
        if len(prompt) > most:
            prompt = [*prompt[:SINKS], *prompt[SINKS - most :]]
        return Reading([*prompt, *answer[: self._settings.answer]], len(prompt))

    async def expected(self, arm: str, call: Call, reading: Reading) -> list[Expected]:
        """One entry for each token of the answer; `Unable` where the arm does not score given text."""
        body: dict[str, Any] = {
            "prompt": list(reading.ids), "max_tokens": 1, "temperature": 0,
            "prompt_logprobs": self._settings.top, "return_token_ids": True, **self._common(call),
        }  # fmt: skip
        found = await self._ask(arm, "/v1/completions", body)
        try:
            choice = found["choices"][0]
            given = choice.get("prompt_logprobs")
            if not given:
                raise Unable(f"arm {arm}: does not score given text (its answer has no `prompt_logprobs`)")
            if list(choice.get("prompt_token_ids") or reading.ids) != list(reading.ids):
                raise Unable(f"arm {arm}: reads other token ids than it was sent")
            if len(given) != len(reading.ids):
                raise EngineError(f"arm {arm}: scored {len(given)} tokens of {len(reading.ids)}")
            return [_expected(one) for one in given[reading.first :]]
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise EngineError(f"arm {arm}: its scores cannot be read ({type(error).__name__})") from None

    async def _prompt(self, arm: str, call: Call) -> list[int]:
        body = call.body
        if "messages" in body:
            seen = {name: body[name] for name in TEMPLATE if name in body}
            return await self._tokens(arm, call, seen | {"chat_template_kwargs": _template(body)})
        prompt = body.get("prompt")
        if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str | list):
            (prompt,) = prompt
        if isinstance(prompt, list):
            return prompt
        special = body.get("add_special_tokens", True)
        return await self._tokens(arm, call, {"prompt": prompt, "add_special_tokens": special})

    async def _tokens(self, arm: str, call: Call, body: Mapping[str, Any]) -> list[int]:
        found = await self._ask(arm, "/tokenize", {**_model(call), **body})
        ids = found.get("tokens")
        if not isinstance(ids, list) or not all(type(one) is int for one in ids):
            raise Unable(f"arm {arm}: /tokenize answers no token ids")
        return ids

    async def _ask(self, arm: str, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        return await self._asker.ask(arm, path, body, seconds=self._settings.seconds, headers=mirror.LOW)

    def _common(self, call: Call) -> dict[str, Any]:
        common = _model(call)
        if self._settings.priority is not None:
            common["priority"] = self._settings.priority
        if call.body.get("cache_salt"):
            common["cache_salt"] = call.body["cache_salt"]
        return common


def _template(body: Mapping[str, Any]) -> dict[str, Any]:
    """What a chat's template is given: /tokenize has no fields for all that vLLM's chat passes on to it."""
    given = dict(body.get("chat_template_kwargs") or {})
    given |= {name: body[name] for name in ("documents", "reasoning_effort") if body.get(name) is not None}
    if "reasoning_effort" in given:
        given.setdefault("enable_thinking", given["reasoning_effort"] != "none")
    return given


def _model(call: Call) -> dict[str, Any]:
    return {"model": call.body["model"]} if "model" in call.body else {}


def _expected(position: Mapping[str, Any]) -> Expected:
    likely = {int(token): float(one["logprob"]) for token, one in position.items()}
    if not all(map(math.isfinite, likely.values())):
        raise ValueError("not finite")
    words = {int(token): str(one.get("decoded_token") or "") for token, one in position.items()}
    return Expected(likely, words)
