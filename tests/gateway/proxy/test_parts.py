"""The parts of a call's way, each by itself."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvant.gateway.arms.upstream import Broken
from kvant.gateway.call import Call
from kvant.gateway.proxy import events
from kvant.gateway.proxy.events import Events
from kvant.gateway.proxy.patience import Patience
from kvant.gateway.proxy.tally import MAX_TEXT, Tally


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([b'data: {"a": 1}', b": ping", b"data: [DONE]", b"event: x\ndata: 2"])),
    st.data(),
)
def test_events_come_whole_however_bytes_are_cut(parts: list[bytes], data: st.DataObject) -> None:
    ends = [data.draw(st.sampled_from([b"\n\n", b"\r\n\r\n"])) for _ in parts]
    whole = b"".join(part + end for part, end in zip(parts, ends, strict=True))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    reader, found = Events(), []
    for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        found += reader.feed(whole[start:end])
    assert b"".join(found) == whole
    # A cut between \r\n and \r\n may leave an empty event; none is torn or joined.
    assert [one.strip() for one in found if one.strip()] == parts


def test_an_event_without_end_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MAX_BYTES", 1000)
    reader = Events()
    assert reader.feed(b"x" * 1000) == []
    with pytest.raises(Broken):
        reader.feed(b"x")


@pytest.mark.parametrize("raw", [b"{", b"[]", b"null", b"\xff"])
def test_what_is_no_object_is_broken(raw: bytes) -> None:
    with pytest.raises(Broken):
        events.parse(raw)


def test_patience_ends_once_with_what_was_waited_for() -> None:
    async def main() -> None:
        said: list[str] = []
        patience = Patience(5.0)
        patience.stop = lambda: said.append(patience.ended)
        for _ in range(5):
            patience.wait("first_token", 0.15)
            await asyncio.sleep(0.05)
        assert said == []
        patience.wait("between_tokens", 0.02)  # sooner than the timer that runs
        await asyncio.sleep(0.15)
        assert said == ["between_tokens"]
        patience.over("draining")
        assert said == ["between_tokens"]

    asyncio.run(main())


def test_patience_has_a_total_that_nothing_extends() -> None:
    async def main() -> None:
        patience = Patience(0.1)
        end = asyncio.get_running_loop().time() + 1
        while not patience.ended:
            patience.wait("between_tokens", 10.0)
            await asyncio.sleep(0.01)
            assert asyncio.get_running_loop().time() < end
        assert patience.ended == "total"

    asyncio.run(main())


def call() -> Call:
    return Call("id", "/v1/chat/completions", {"stream": True}, "", "")


def chunk(index: int = 0, **delta: object) -> dict[str, object]:
    return {"choices": [{"index": index, "delta": delta, "finish_reason": None}]}


def test_a_tally_counts_tokens_of_all_choices_and_keeps_the_text_of_the_first() -> None:
    tally = Tally(call())
    tally.chunk(chunk(role="assistant", content=""), 1.0)
    assert tally.first is None
    tally.chunk(chunk(content="a"), 2.0)
    tally.chunk(chunk(1, content="b"), 3.0)
    tally.chunk(chunk(tool_calls=[{"index": 0, "function": {"name": "f", "arguments": '{"x"'}}]), 4.0)
    tally.chunk(chunk(tool_calls=[{"index": 0, "function": {"arguments": ": 1}"}}]), 6.0)
    served = tally.served("baseline", 200, 7.0)
    assert (served.first, served.gaps, served.tokens, served.text) == (2.0, (1.0, 1.0, 2.0), 4, "a")
    assert served.tools == ('{"x": 1}',)
    tally.chunk({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 0}}, 8.0)
    served = tally.served("baseline", 200, 8.0)
    assert (served.prompt_tokens, served.tokens) == (3, 0)


NAMES = (
    *("choices", "delta", "message", "content", "text", "usage", "index", "tool_calls", "function"),
    *("arguments", "finish_reason", "completion_tokens", "reasoning"),
)
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(NAMES), inner),
)


@settings(deadline=None)
@given(JUNK)
def test_a_tally_takes_whatever_an_engine_writes(junk: object) -> None:
    tally = Tally(call())
    if isinstance(junk, dict):
        tally.chunk(junk, 1.0)
        tally.answer(junk)
        tally.served("baseline", 200, 2.0)


def test_a_text_is_kept_up_to_a_bound() -> None:
    tally = Tally(call())
    for _ in range(10):
        tally.chunk(chunk(content="x" * 10_000), 1.0)
    assert len(tally.text) == MAX_TEXT
