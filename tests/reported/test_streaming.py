"""Reported failure H5-48: a stream sends pieces of a stop string before the stop is recognised."""

from __future__ import annotations

import time
from typing import Any

import httpx
import pytest

from tests.e2e.server import MODEL, Server

STORY = "Once upon a time, in a small village by the sea, there lived"
TOKENS = 48
FORCED = {"structured_outputs": {"regex": "(ab😀cdé\\n){3}"}, "ignore_eos": False}
"""Makes the model write a text we know, with characters of several tokens."""


def both(server: Server, prompt: str = STORY, **asked: Any) -> tuple[str, str, list[str], str, str]:
    """(whole, streamed, pieces, finish reason of either) of the same greedy request."""
    client = server.client()
    extra = {"ignore_eos": True, **asked.pop("extra_body", {})}
    asked = {"model": MODEL, "prompt": prompt, "temperature": 0, "max_tokens": TOKENS, **asked}
    whole = client.completions.create(**asked, extra_body=extra).choices[0]
    pieces, reason = [], None
    for chunk in client.completions.create(**asked, extra_body=extra, stream=True):
        pieces.append(chunk.choices[0].text)
        reason = chunk.choices[0].finish_reason or reason
    return whole.text, "".join(pieces), pieces, str(whole.finish_reason), str(reason)


@pytest.fixture(scope="module")
def text(server: Server) -> str:
    """What the model writes without a stop."""
    return both(server)[0]


@pytest.mark.parametrize(("at", "length"), [(20, 1), (33, 4), (41, 9), (60, 17)])
def test_h5_48_no_part_of_a_stop_is_sent(server: Server, text: str, at: int, length: int) -> None:
    stop = text[at : at + length]
    whole, streamed, _, *reasons = both(server, stop=stop)
    assert whole == streamed == text[: text.index(stop)]
    assert reasons == ["stop", "stop"]


def test_h5_48_an_included_stop_is_whole(server: Server, text: str) -> None:
    stop = text[41:50]
    whole, streamed, *_ = both(server, stop=stop, extra_body={"include_stop_str_in_output": True})
    assert whole == streamed == text[: text.index(stop) + len(stop)]


def test_h5_48_of_overlapping_stops_the_first_to_be_complete_counts(server: Server, text: str) -> None:
    short, long = text[41:44], text[41:49]
    whole, streamed, *_ = both(server, stop=[long, short])
    assert whole == streamed == text[: text.index(short)]


def test_h5_48_a_stop_that_only_begins_is_flushed(server: Server, text: str) -> None:
    never = [text[10:18] + "\x00", text[-6:] + "\x00"]
    whole, streamed, *_, reason = both(server, stop=never)
    assert whole == streamed == text
    assert reason == "length"


@pytest.mark.parametrize("stop", ["😀", "b😀c", "é\n", "cdé\nab😀", "\nab"])
def test_h5_48_stops_of_characters_that_are_several_tokens(server: Server, stop: str) -> None:
    written = "ab😀cdé\n" * 3
    whole, streamed, pieces, *_ = both(server, stop=stop, max_tokens=60, extra_body=FORCED)
    assert whole == streamed == written[: written.index(stop)]
    assert not any("\ufffd" in piece for piece in pieces)


def test_h5_48_no_character_is_cut_in_half(server: Server) -> None:
    whole, streamed, pieces, *_ = both(server, max_tokens=60, extra_body=FORCED)
    assert whole == streamed == "ab😀cdé\n" * 3
    assert not any("\ufffd" in piece for piece in pieces)


@pytest.mark.slow
def test_h5_48_bytes_that_are_no_characters_cost_linear_time(server: Server) -> None:
    # vLLM keeps back what is not yet a character: of bytes that never become one, nothing is sent.
    byte = first_byte(server, "\U0001f9ff")
    asked = {"model": MODEL, "prompt": STORY, "temperature": 0, "max_tokens": 240}
    extra = {"ignore_eos": True, "allowed_token_ids": [byte]}
    client = server.client()
    pieces, times = [], []
    for chunk in client.completions.create(
        **asked, stream=True, stream_options={"include_usage": True}, extra_body=extra
    ):
        pieces += [choice.text for choice in chunk.choices]
        times.append(time.monotonic())
    assert chunk.usage is not None
    assert chunk.usage.completion_tokens == 240
    assert not any(piece.replace("\ufffd", "") for piece in pieces)
    # A detokeniser that starts again at the last whole character is many times slower at the end.
    quarter = len(times) // 4
    assert times[-1] - times[-quarter] < 3 * (times[2 * quarter] - times[quarter]) + 2
    assert client.completions.create(model=MODEL, prompt=STORY, max_tokens=4).choices[0].text


def first_byte(server: Server, character: str) -> int:
    """The token of the first byte of a character that has no token of its own."""
    asked = {"model": MODEL, "prompt": character, "add_special_tokens": False}
    tokens = httpx.post(f"{server.url}/tokenize", json=asked).json()["tokens"]
    assert len(tokens) > 1
    return int(tokens[0])
