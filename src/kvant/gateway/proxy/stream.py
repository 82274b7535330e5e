"""A streamed answer on its way: every event read once, its bytes passed on unchanged."""

from __future__ import annotations

import time
from typing import Any

import aiohttp

from kvant.gateway.answers.takeover import Continuation
from kvant.gateway.arms.upstream import Broken
from kvant.gateway.cast import read
from kvant.gateway.proxy.continuation import recount
from kvant.gateway.proxy.events import DONE, Events, content, made, parse
from kvant.gateway.proxy.patience import Patience
from kvant.gateway.proxy.reply import Reply
from kvant.gateway.proxy.tally import Tally
from kvant.gateway.roles import Sentinel, Sign
from kvant.gateway.settings import Timeouts

EVENT_STREAM = "text/event-stream; charset=utf-8"
MAX_HELD = 1 << 20
"""Bytes that a sentinel may keep back; beyond them they are sent."""


class Stream:
    """Passes on the events of one arm; `sent` is what the client has of the text, over all arms."""

    def __init__(self, reply: Reply, tally: Tally, patience: Patience, timeouts: Timeouts, usage: bool):
        self._reply, self._tally, self._patience, self._timeouts = reply, tally, patience, timeouts
        self._usage = usage
        """Whether the client asked for the usage event; if not, it is for us alone."""
        self.sent = 0
        self.sent_tokens = 0
        self._carried: int | None = None
        self._rest: Continuation | None = None
        self._held: list[tuple[bytes, int]] = []
        self._holding = False
        self._last: dict[str, Any] = {}
        self._since = 0.0
        """When the arm was asked, or wrote its last token."""

    def resume(self, rest: Continuation) -> None:
        """The next arm goes on where the text sent so far ends."""
        self._rest = rest
        self._carried, self._held, self._holding = self.sent_tokens, [], False
        self._tally.carry(self._tally.text[: self.sent], self.sent_tokens)

    def await_first(self) -> None:
        """An arm is asked: of a stream, its first token is waited for from now on."""
        self._since = time.monotonic()
        if self._tally.streams:
            self._wait()

    async def forward(self, answer: aiohttp.ClientResponse, sentinel: Sentinel | None) -> bool:
        """False where the sentinel tripped: the client then has nothing of what it kept back.

        `Broken` where the stream ends without its end.
        """
        events, reply, patience = Events(), self._reply, self._patience
        ended = False
        while data := await self._read(answer):
            now, out, tripped = time.monotonic(), [], False
            tokens = self._tally.tokens
            for event in events.feed(data):
                inner = content(event)
                if inner == DONE and not self._last:
                    raise Broken("a stream without an answer")
                ended |= inner == DONE
                if inner is None or inner == DONE:
                    out += self._released() if ended else []
                    out.append(event)
                    continue
                kept, text = self._read_chunk(inner, event, now)
                sign = read(sentinel, text) if sentinel is not None and text else Sign.CLEAR
                if sign is Sign.TRIP:
                    tripped = True
                    break
                if kept is not None:
                    self._held.append((kept, len(text)))
                if text:
                    self._holding = sign is Sign.HOLD
                if not self._holding or sum(len(one) for one, _ in self._held) > MAX_HELD:
                    out += self._released()
            if out:
                if not reply.status:
                    await reply.start(200, EVENT_STREAM)
                patience.wait("client", self._timeouts.client)
                await reply.write(b"".join(out))
            # Comments that keep a connection are no tokens; what the client took its time for is no arm's.
            later = time.monotonic()
            self._since = later if self._tally.tokens != tokens else self._since + later - now
            if tripped:
                return False
        if not ended:
            raise Broken("a stream without its end")
        await reply.end()
        return True

    async def finish(self, reason: str, finish: str) -> None:
        """Ends a stream that may not go on, with a reason in the place where clients look for one."""
        head = {name: value for name, value in self._last.items() if name not in ("choices", "usage")}
        empty: dict[str, Any] = {"delta": {}} if "chat" in str(head.get("object")) else {"text": ""}
        choice = {"index": 0, **empty, "finish_reason": finish, "stop_reason": reason}
        if not self._reply.status:
            await self._reply.start(200, EVENT_STREAM)
        await self._reply.end(made({**head, "choices": [choice]}) + b"data: [DONE]\n\n")

    async def _read(self, answer: aiohttp.ClientResponse) -> bytes:
        self._wait()
        return await answer.content.readany()

    def _wait(self) -> None:
        word = "first_token" if self._tally.first is None else "between_tokens"
        self._patience.wait(word, self._since + getattr(self._timeouts, word) - time.monotonic())

    def _read_chunk(self, inner: bytes, event: bytes, now: float) -> tuple[bytes | None, str]:
        """The bytes to send for this event, None for none, and its text."""
        chunk = parse(inner)
        if "error" in chunk:
            raise Broken("an error inside the stream")
        self._last = chunk
        if self._rest is not None and _fitted(chunk, self._rest):
            event = made(chunk)
        text = self._tally.chunk(chunk, now)
        usage = chunk.get("usage")
        if self._carried is not None:
            if isinstance(usage, dict):
                recount(usage, self._carried)
                self._tally.chunk({"usage": usage}, now)
                event = made(chunk)
            elif _only_role(chunk):
                return None, ""
        if usage and not chunk.get("choices") and not self._usage:
            return None, text
        return event, text

    def _released(self) -> list[bytes]:
        out = [event for event, _ in self._held]
        self.sent += sum(length for _, length in self._held)
        self.sent_tokens += sum(1 for _, length in self._held if length)
        self._held.clear()
        return out


def _fitted(chunk: dict[str, Any], rest: Continuation) -> bool:
    """Makes a piece of a continuation follow what was sent; whether that changed it."""
    for choice in (chunk.get("choices") or ())[:1]:
        place, name = (choice["delta"], "content") if "delta" in choice else (choice, "text")
        text = place.get(name)
        if isinstance(text, str):
            place[name] = fitted = rest.fit(text)
            return fitted != text
    return False


def _only_role(chunk: dict[str, Any]) -> bool:
    """The first event of a chat, which a continuation must not repeat."""
    choices = chunk.get("choices") or [{}]
    delta = choices[0].get("delta")
    return isinstance(delta, dict) and "role" in delta and not delta.get("content")
