"""The rest of an answer, from another arm: the request that makes it go on where good text ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kvant.gateway.answers import asked
from kvant.gateway.call import Call

WHOLE = ("tools", "functions", "logprobs", "top_logprobs", "prompt_logprobs", "echo", "suffix", "best_of",
         "use_beam_search", "return_token_ids", "return_tokens_as_token_ids", "prompt_embeds")  # fmt: skip
"""Fields whose answers cannot be put together from two halves."""


@dataclass
class Continuation:
    """A body for the other arm; `fit` makes its pieces follow what the client has."""

    body: Mapping[str, Any] = field(repr=False)
    blanks: str = ""
    """What good text ends with: chat templates may cut it, and the model then writes it once more."""

    def fit(self, piece: str) -> str:
        """The next piece of the continuation, without blanks that were sent before."""
        while self.blanks and piece and piece[0] == self.blanks[0]:
            piece, self.blanks = piece[1:], self.blanks[1:]
        if piece:
            self.blanks = ""
        return piece


def continuation(call: Call, good: str, tokens: int) -> Continuation | None:
    """How to go on after `good` (what the client has of the answer), of so many tokens.

    The whole call again where nothing was sent. None where an answer cannot be continued: tool calls,
    log-probabilities, several answers, a grammar, or no token left.
    """
    body = dict(call.body)
    if not good:
        return Continuation(body)
    if any(body.get(name) for name in WHOLE) or asked.choices(body) != 1 or asked.structured(body):
        return None
    for name in ("max_tokens", "max_completion_tokens", "min_tokens"):
        if type(body.get(name)) is int:
            body[name] -= tokens
            if body[name] <= 0 and name != "min_tokens":
                return None
    if "min_tokens" in body:
        body["min_tokens"] = max(0, body["min_tokens"] or 0)
    return _chat(body, good) if "messages" in body else _completion(body, good)


def _chat(body: dict[str, Any], good: str) -> Continuation | None:
    messages = list(body["messages"])
    said: Any = ""
    if body.get("continue_final_message"):
        last = messages.pop()
        said = last.get("content") if isinstance(last, Mapping) else None
        if not isinstance(said, str):
            return None
    kept = good.rstrip()
    messages.append({"role": "assistant", "content": said + kept})
    body |= {"messages": messages, "continue_final_message": True, "add_generation_prompt": False}
    return Continuation(body, good[len(kept) :])


def _completion(body: dict[str, Any], good: str) -> Continuation | None:
    prompt = body.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1:
        (prompt,) = prompt
    if not isinstance(prompt, str):
        return None
    return Continuation({**body, "prompt": prompt + good})
