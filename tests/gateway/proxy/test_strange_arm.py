"""Arms that answer strangely: byte for byte what a broken engine, or a proxy before one, may send."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from kvant.gateway.app import Gateway
from kvant.gateway.call import Served
from tests.gateway.engine import Engine
from tests.gateway.proxy.test_calls import Seen, wait_until
from tests.gateway.proxy.test_guard import Candidate, Guard
from tests.gateway.running import HELLO, Running, settings

SSE = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
Write = Callable[[socket.socket], None]


def head(status: str, kind: str, body: bytes) -> bytes:
    words = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
    return words.encode() + b"Connection: close\r\n\r\n" + body


def piece(text: str, **more: Any) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    return json.dumps({"object": "chat.completion.chunk", "choices": [choice], **more}).encode()


def event(text: str, **more: Any) -> bytes:
    return b"data: " + piece(text, **more) + b"\n\n"


END = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


class Arm(Engine):
    """A server on a real socket that answers every POST with `write`, and has no /metrics."""

    write: bytes | Write = b""

    def __enter__(self) -> Arm:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                one, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(one,), daemon=True).start()

    def _answer(self, one: socket.socket) -> None:
        with one, contextlib.suppress(OSError):
            got = b""
            while b"\r\n\r\n" not in got:
                got += one.recv(65536)
            if not got.startswith(b"POST"):
                one.sendall(head("404 Not Found", "text/plain", b""))
            elif isinstance(self.write, bytes):
                one.sendall(self.write)
            else:
                self.write(one)
            one.shutdown(socket.SHUT_WR)
            while one.recv(65536):
                pass


class Strange:
    """A gateway before such an arm, and what its watchers were told of the last calls."""

    def __init__(self, **sections: Any) -> None:
        self.arm = Arm()
        self._sections = sections
        self.seen = Seen()

    def __enter__(self) -> Strange:
        self.arm.__enter__()
        limits = {"tokens_per_minute": 1_000_000}
        self.running = Running(
            settings([self.arm], limits=limits, **self._sections),
            lambda gate: gate.cast.watchers.append(self.seen),
        ).__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        self.running.__exit__(*raised)
        self.arm.__exit__()

    def told(self, write: bytes | Write, stream: bool = True) -> tuple[httpx.Response, Served]:
        """What the client gets of an arm that writes this, and what the gateway knows of it."""
        self.arm.write = write
        self.seen.served.clear()
        answer = self.running.post({"messages": HELLO, "stream": stream})
        wait_until(lambda: self.seen.served != [] and not self.running.gateway.door.quotas.used)
        return answer, self.seen.served[0]


@pytest.fixture(scope="module")
def strange() -> Iterator[Strange]:
    with Strange() as one:
        yield one


def whole(choice: Any = None, **more: Any) -> bytes:
    choice = choice or {"index": 0, "message": {"content": "hi"}, "finish_reason": "stop"}
    return head("200 OK", "application/json", json.dumps({"choices": [choice], **more}).encode())


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        (b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n", "broken"),
        (head("302 Found", "text/html", b"<a>log in</a>"), "broken"),
        (head("401 Unauthorized", "application/json", b'{"error":{"message":"bad key sk-1"}}'), "broken"),
        (head("200 OK", "text/html", b"<html>"), "broken"),
        (head("200 OK", "application/json", b"{}"), "broken"),
        (head("200 OK", "application/json", b'{"error": {"message": "no"}}'), "broken"),
        (head("200 OK", "application/json", b"[" * 200_000), "broken"),
        (SSE + b"data: [DONE]\n\n", "broken"),
        (SSE + b"data: " + b"[" * 200_000 + b"\n\n" + END, "broken"),
        (SSE + b'event: error\ndata: {"error": {"message": "out of memory"}}\n\n' + END, "broken"),
        (head("400 Bad Request", "application/json", b"[" * 200_000), "refused"),
    ],
)
def test_what_is_no_answer_is_the_arms_fault_and_not_repeated(
    strange: Strange, answer: bytes, word: str
) -> None:
    told, served = strange.told(answer)
    assert (told.status_code, served.error) == (400 if word == "refused" else 502, word)
    assert "sk-1" not in told.text


@pytest.mark.parametrize("count", [10**400, 1 << 40, -5, "9", 1.5, True], ids=lambda one: str(one)[:9])
@pytest.mark.parametrize("stream", [True, False])
def test_counts_that_cannot_be_are_none(strange: Strange, count: Any, stream: bool) -> None:
    usage = {"prompt_tokens": count, "completion_tokens": count}
    told, served = strange.told(SSE + event("a", usage=usage) + END if stream else whole(usage=usage), stream)
    assert (told.status_code, served.error, served.tokens) == (200, "", int(stream))
    assert strange.told(whole(), stream=False)[0].status_code == 200  # nobody is in debt for it


@pytest.mark.parametrize("content", [[{"type": "text", "text": "hi"}], 5, {"a": 1}])
def test_content_that_is_no_text_is_passed_on_and_written_down(strange: Strange, content: Any) -> None:
    choice = {"index": 0, "message": {"content": content}, "finish_reason": "stop"}
    told, served = strange.told(whole(choice), stream=False)
    assert (told.json()["choices"], served.error, served.text) == ([choice], "", "")


@pytest.mark.parametrize(
    "sent",
    [
        b"event: message\ndata: " + piece("word") + b"\n\n",
        b": alive\ndata: " + piece("word") + b"\nid: 7\n\n",
        b": alive\n\n\ndata: " + piece("word") + b"\n\n",
        b"data:" + piece("word") + b"\r\n\r\n",
        b'data: {"choices":\ndata: [{"delta": {"content": "word"}}]}\n\n',
    ],
)
def test_text_is_read_wherever_in_an_event_it_stands(strange: Strange, sent: bytes) -> None:
    """Or it would pass by the sentinel."""
    told, served = strange.told(SSE + sent + END)
    assert (told.content, served.text) == (sent + END, "word")


def test_a_large_event_in_small_pieces_holds_nobody_up(strange: Strange) -> None:
    large = event("x" * 4_000_000) + END

    def write(one: socket.socket) -> None:
        one.sendall(SSE)
        for start in range(0, len(large), 4096):
            one.sendall(large[start : start + 4096])

    told, served = strange.told(write)
    assert (told.content == large, served.error) == (True, "")


def alive(one: socket.socket) -> None:
    one.sendall(SSE)
    while True:
        one.sendall(b": alive\n\n")
        time.sleep(0.02)


def silent(one: socket.socket) -> None:
    one.recv(1)


@pytest.mark.parametrize(("write", "status"), [(alive, 200), (silent, 504)])
def test_neither_comments_nor_a_connection_are_a_first_token(write: Write, status: int) -> None:
    with Strange(timeouts={"first_token": 0.2, "total": 15.0}) as strange:
        told, served = strange.told(write)
    assert (told.status_code, served.error) == (status, "timeout")
    assert "timeouts.first_token" in told.text


def test_what_was_kept_back_of_a_broken_answer_is_not_mixed_with_another() -> None:
    held = SSE + event("kv ") + event("kv ")
    first, second, baseline = Arm(), Arm(), Arm()
    first.write = second.write = held
    seen = Seen()

    def plug(gate: Gateway) -> None:
        gate.cast.router, gate.cast.guard = Candidate(), Guard()
        gate.cast.watchers.append(seen)

    with first, second, baseline, Running(settings([baseline], [first, second]), plug) as gateway:
        told = gateway.post({"messages": HELLO, "stream": True})
        wait_until(lambda: seen.served != [])
    assert (told.status_code, "kv " in told.text) == (502, False)
    assert [(one.error, one.text) for one in seen.served] == [("broken", "kv kv ")]
