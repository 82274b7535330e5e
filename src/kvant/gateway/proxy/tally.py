"""What is learnt of an answer while it passes: its times, its tokens, its text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvant.gateway.arms.replica import Pace
from kvant.gateway.call import Call, Served

MAX_TEXT = 65_536
"""Characters of an answer that are remembered."""
MAX_GAPS = 16_384
MAX_TOKENS = 1 << 30
"""More than any answer has: a count beyond is none, and neither charged nor added to metrics."""


class Tally:
    """Of one call. Of several choices the first one's text counts, and the tokens of all."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self.replica = ""
        self.pace: Pace | None = None
        """Of the replica that writes, which is told every gap."""
        self.first: float | None = None
        self.error = self.tripped = self.finish = ""
        self.absent = False
        self.prompt_tokens = 0
        self.tokens = 0
        self.reasoned = False
        self._gaps: list[float] = []
        self._last = 0.0
        self._texts: list[str] = []
        self._length = 0
        self._tools: dict[int, list[str]] = {}

    @property
    def text(self) -> str:
        return "".join(self._texts)

    @property
    def streams(self) -> bool:
        return self._call.streams

    @property
    def calls_tools(self) -> bool:
        return bool(self._tools)

    def chunk(self, chunk: Mapping[str, Any], now: float) -> str:
        """One event of a stream at this time; the text that it adds to the first choice."""
        added = ""
        written = False
        for choice in _maps(chunk.get("choices")):
            part = choice.get("delta", choice)
            part = part if isinstance(part, Mapping) else {}
            words = part.get("content") if part is not choice else choice.get("text")
            thought = part.get("reasoning_content") or part.get("reasoning")
            if words or thought or part.get("tool_calls"):
                written = True
                self.tokens += 1
            if choice.get("index", 0):
                continue
            self.reasoned |= bool(thought)
            added += words if isinstance(words, str) else ""
            self._take_tools(part.get("tool_calls"))
            self.finish = _word(choice.get("finish_reason")) or self.finish
        if written:
            self._time(now)
        if added:
            self._take_text(added)
        self._take_usage(chunk.get("usage"))
        return added

    def answer(self, answer: Mapping[str, Any]) -> str:
        """An answer that came in one piece; the text of its first choice."""
        text = ""
        for choice in _maps(answer.get("choices"))[:1]:
            message = choice.get("message", {"content": choice.get("text")})
            message = message if isinstance(message, Mapping) else {}
            said = message.get("content")
            text = said if isinstance(said, str) else ""
            self._take_tools(message.get("tool_calls"))
            self.finish = _word(choice.get("finish_reason"))
        self._texts.clear()
        self._length = 0
        self._take_text(text)
        self._take_usage(answer.get("usage"))
        return text

    def carry(self, sent: str, tokens: int) -> None:
        """A continuation begins: of what was written, only what the client has counts."""
        self._texts, self._length, self.tokens = [sent], len(sent), tokens
        self.finish = ""

    def served(self, arm: str, status: int, now: float) -> Served:
        """The call has ended."""
        return Served(
            call=self._call,
            arm=arm,
            replica=self.replica,
            status=status,
            seconds=now - self._call.at,
            first=self.first,
            gaps=tuple(self._gaps),
            prompt_tokens=self.prompt_tokens,
            tokens=self.tokens,
            finish=self.finish,
            text=self.text,
            error=self.error,
            tripped=self.tripped,
            absent=self.absent,
            tools=tuple("".join(parts) for _, parts in sorted(self._tools.items())),
        )

    def _time(self, now: float) -> None:
        if self.first is None:
            self.first = now - self._call.at
        else:
            gap = now - self._last
            if len(self._gaps) < MAX_GAPS:
                self._gaps.append(gap)
            if self.pace is not None:
                self.pace.add(gap)
        self._last = now

    def _take_text(self, text: str) -> None:
        if self._length < MAX_TEXT:
            self._texts.append(text[: MAX_TEXT - self._length])
            self._length += len(text)

    def _take_tools(self, calls: object) -> None:
        for position, call in enumerate(_maps(calls)):
            function = call.get("function")
            arguments = function.get("arguments") if isinstance(function, Mapping) else None
            index = call.get("index", position)
            if isinstance(index, int) and len(self._tools) < 128:
                self._tools.setdefault(index, []).append(arguments if isinstance(arguments, str) else "")

    def _take_usage(self, usage: object) -> None:
        # What the engine counted stands, a zero as well.
        if isinstance(usage, Mapping):
            self.prompt_tokens = _count(usage.get("prompt_tokens"), self.prompt_tokens)
            self.tokens = _count(usage.get("completion_tokens"), self.tokens)


def _maps(value: object) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def _word(value: object) -> str:
    return value[:64] if isinstance(value, str) else ""


def _count(value: object, otherwise: int) -> int:
    return value if type(value) is int and 0 <= value <= MAX_TOKENS else otherwise
