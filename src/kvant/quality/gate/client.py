"""What the gate asks of an arm: answers, and the log-probabilities of given text. OpenAI's API only.

Scoring given text uses `prompt_logprobs`, which vLLM (and so Kvant) adds to /v1/completions.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from kvant.errors import EngineError

if TYPE_CHECKING:
    from openai import OpenAI

KEYS = ("KVANT_GATE_API_KEY", "OPENAI_API_KEY")
"""Environment variables that may hold the API key; the first that is set."""

TIMEOUT = 600.0

MOST = 0.01
"""A log-probability is not above zero, but for rounding."""

Token = TypeVar("Token", int, str)

Likely = Mapping[str, float]
"""The most likely tokens of one position, and their log-probabilities."""


TAIL, SPECIAL, FIRST = 16, 16, 64
"""Letters: of the end of a text that must have been scored; of a token after it; of its first token."""


def api_key() -> str:
    """The key to ask with; empty where there is none."""
    return next((os.environ[name] for name in KEYS if os.environ.get(name)), "")


class Unable(EngineError):
    """The server answers, but cannot do what a suite needs."""


class Refused(EngineError):
    """The server does not take the request as it is; most often it is longer than the context."""


@dataclass(frozen=True)
class Answer:
    """A greedy answer; `likely` has an entry for each token where log-probabilities were asked for."""

    text: str
    tokens: tuple[str, ...] = ()
    likely: tuple[Likely, ...] = ()
    finish: str = ""
    used: int = 0
    """Tokens written, as the server counts them."""


@dataclass(frozen=True)
class Scored:
    """A text as the arm reads it: ids, and for each of them (but the first) what it expected there."""

    ids: tuple[int, ...]
    words: tuple[str, ...]
    expected: tuple[Mapping[int, float], ...]
    spelt: tuple[Mapping[int, str], ...] = field(repr=False)

    @property
    def losses(self) -> list[float]:
        """Minus the log-probability of each token but the first, nats."""
        return [-here[token] for token, here in zip(self.ids[1:], self.expected, strict=True)]


class Client:
    """One arm. `EngineError` with the server's words where a request fails."""

    def __init__(self, url: str, model: str | None = None, timeout: float = TIMEOUT) -> None:
        from openai import OpenAI

        base = url.rstrip("/")
        base = base if base.endswith("/v1") else f"{base}/v1"
        self.url = base
        self._api: OpenAI = OpenAI(base_url=base, api_key=api_key() or "none", max_retries=2, timeout=timeout)
        try:
            self.model = model or self._only_model()
        except EngineError:
            self.close()
            raise

    def close(self) -> None:
        """Its connections."""
        self._api.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def complete(
        self,
        prompt: str,
        tokens: int,
        top: int | None = None,
        stop: Sequence[str] | None = None,
        least: float = 0,
        **sampling: float,
    ) -> Answer:
        """Continuation of a text, greedy unless `sampling` (temperature, seed) says otherwise.

        `EngineError` where the server counts fewer than `least` tokens in the prompt: it has cut it.
        """
        extra = {} if top is None else {"logprobs": top}
        fields = {"prompt": prompt, "max_tokens": tokens, "stop": list(stop or ()) or None}
        found = self._completions(**fields, **extra, **sampling)
        with self._read():
            (choice,) = found.choices
            used = found.usage.completion_tokens if found.usage else 0
            if found.usage and (read := found.usage.prompt_tokens) < least:
                raise EngineError(
                    f"{self.url}: read {read} tokens of a prompt of {least:.0f} or more: it cuts "
                    "prompts silently; serve a longer context, or turn its truncation off"
                )
            if top is None:
                return Answer(str(choice.text), finish=str(choice.finish_reason), used=used)
            given = choice.logprobs
            if given is None or not given.top_logprobs:
                raise Unable(f"{self.url}: answers without log-probabilities, which were asked for")
            places = zip(given.top_logprobs, given.tokens, given.token_logprobs, strict=True)
            likely = self._likely(given.tokens, ({**best, token: own} for best, token, own in places), top)
            return Answer(str(choice.text), tuple(given.tokens), likely, str(choice.finish_reason), used)

    def chat(self, messages: Sequence[Mapping[str, str]], tokens: int, top: int | None = None) -> Answer:
        """Greedy answer to a conversation."""
        extra: dict[str, Any] = {} if top is None else {"logprobs": True, "top_logprobs": top}
        found = self._call(
            self._api.chat.completions.create, messages=list(messages), max_tokens=tokens, **extra
        )
        with self._read():
            (choice,) = found.choices
            text, finish = str(choice.message.content or ""), str(choice.finish_reason)
            if top is None:
                return Answer(text, finish=finish)
            if choice.logprobs is None or choice.logprobs.content is None:
                raise Unable(f"{self.url}: answers without log-probabilities, which were asked for")
            content = choice.logprobs.content
            words = tuple(here.token for here in content)
            listed = ({one.token: one.logprob for one in (*here.top_logprobs, here)} for here in content)
            return Answer(text, words, self._likely(words, listed, top), finish)

    def length(self, text: str) -> int:
        """Tokens of a text, as the server counts them."""
        found = self._completions(prompt=text, max_tokens=1)
        with self._read():
            if found.usage is None:
                raise Unable(f"{self.url}: does not say how many tokens a prompt had (`usage`)")
            return int(found.usage.prompt_tokens)

    def score(self, text: str | Sequence[int], top: int) -> Scored:
        """What the arm expects at every token of a text or of ids: the `top` likeliest and the token."""
        extra = {"prompt_logprobs": top, "return_token_ids": True}
        prompt = text if isinstance(text, str) else list(text)
        found = self._completions(prompt=prompt, max_tokens=1, extra_body=extra)
        with self._read():
            (choice,) = found.choices
            given: list[Any] | None = getattr(choice, "prompt_logprobs", None)
            ids: list[int] | None = getattr(choice, "prompt_token_ids", None)
            if not given or not ids:
                raise Unable(
                    f"{self.url}: does not score given text: its answer has no `prompt_logprobs`, which "
                    "vLLM and Kvant add to /v1/completions; leave the suite `fidelity` out and let `golden` "
                    "compare"
                )
            here = [{int(n): one for n, one in position.items()} for position in given[1:]]
            listed = ({n: one["logprob"] for n, one in some.items()} for some in here)
            expected = self._likely(ids[1:], listed, top)
            spelt = tuple({n: str(one.get("decoded_token")) for n, one in some.items()} for some in here)
            words = ("", *(names[token] for token, names in zip(ids[1:], spelt, strict=True)))
            self._whole(prompt, ids, words)
            return Scored(tuple(ids), words, expected, spelt)

    def _whole(self, prompt: str | Sequence[int], ids: Sequence[int], words: Sequence[str]) -> None:
        """`EngineError` where what was scored is not the whole of what was given."""
        if isinstance(prompt, str):
            given, read = _letters(prompt), _letters("".join(words))
            # A token that ends texts may follow; the first token is missing, it has no word.
            ends = given[FIRST:][-TAIL:] in read[-TAIL - SPECIAL :]
            if ends and len(read) >= len(given) - FIRST:
                return
            what = f"{len(read)} of the {len(given)} letters of a text"
        else:
            if list(ids) == list(prompt):
                return
            what = f"{len(ids)} tokens of {len(prompt)}, or others"
        raise EngineError(
            f"{self.url}: scored {what} that it was given: it cuts prompts silently; serve a longer context, "
            "or turn its truncation off"
        )

    def _likely(
        self, tokens: Sequence[Token], listed: Iterable[Mapping[Token, Any]], top: int
    ) -> tuple[dict[Token, float], ...]:
        """What is listed at each of the tokens; `EngineError` where it is no evidence."""
        found = tuple({token: float(one) for token, one in here.items()} for here in listed)
        if any(token not in here for token, here in zip(tokens, found, strict=True)):
            raise EngineError(f"{self.url}: lists no log-probability of a token that it was given")
        if not all(math.isfinite(one) and one < MOST for here in found for one in here.values()):
            raise EngineError(f"{self.url}: answers log-probabilities that are not finite, or above zero")
        if top > 1 and found and max(map(len, found)) < 2:
            raise Unable(f"{self.url}: lists one likely token at each place, where {top} were asked for")
        return found

    @contextmanager
    def _read(self) -> Iterator[None]:
        """Of an answer that has not the shape it must have; the library does not look."""
        try:
            yield
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise EngineError(
                f"{self.url}: answers what is no answer of OpenAI's API: {type(error).__name__}: {error}"
            ) from error

    def _completions(self, **fields: Any) -> Any:
        return self._call(self._api.completions.create, **fields)

    def _call(self, create: Any, **fields: Any) -> Any:
        from openai import BadRequestError, OpenAIError

        try:
            return create(**{"model": self.model, "temperature": 0, **fields})
        except OpenAIError as error:
            kind = Refused if isinstance(error, BadRequestError) else EngineError
            raise kind(f"{self.url}: {type(error).__name__}: {str(error)[:500]}") from error

    def _only_model(self) -> str:
        from openai import OpenAIError

        try:
            names = [one.id for one in self._api.models.list()]
        except OpenAIError as error:
            raise EngineError(f"{self.url}: does not answer: {error}") from error
        if len(names) != 1:
            raise EngineError(f"{self.url}: serves {', '.join(names) or 'no model'}; name one with --model")
        return names[0]


def _letters(text: str) -> str:
    """Tokens are spelt with marks for spaces, and with parts of other letters, but these are as they are."""
    return re.sub(r"[^A-Za-z0-9]", "", text)
