"""Connections that never finish what they began."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any

import pytest
from starlette.responses import PlainTextResponse

from kvant.http import listener
from kvant.http.listener import Listener

HEAD = b"GET / HTTP/1.1\r\nHost: here\r\n"
Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def slow_answer(scope: Any, receive: Any, send: Any) -> None:
    await asyncio.sleep(0.6)
    await PlainTextResponse("done")(scope, receive, send)


@pytest.fixture
def talk(monkeypatch: pytest.MonkeyPatch) -> Callable[[Talk], None]:
    """Run a conversation with a listener that waits 0.3 s for the head of a request."""
    monkeypatch.setattr(listener, "HEAD_SECONDS", 0.3)

    def run(conversation: Talk) -> None:
        async def main() -> None:
            server = Listener(slow_answer, "127.0.0.1", 0, "serving.port")
            port = server._socket.getsockname()[1]
            task = asyncio.create_task(server.run_until_closed())
            while not server.started:
                await asyncio.sleep(0.01)
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                await asyncio.wait_for(conversation(reader, writer), 10)
            finally:
                writer.close()
                await server.close(task)

        asyncio.run(main())

    return run


@pytest.mark.parametrize("sent", [b"", HEAD], ids=["nothing", "half a head"])
def test_a_head_that_does_not_come_ends_the_connection(talk: Callable[[Talk], None], sent: bytes) -> None:
    async def conversation(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        start = monotonic()
        writer.write(sent)
        assert await reader.read() == b""
        assert 0.2 < monotonic() - start < 5

    talk(conversation)


def test_a_slow_answer_is_waited_for_and_the_next_head_is_bounded_again(talk: Callable[[Talk], None]) -> None:
    async def conversation(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + b"\r\n")
        assert (await reader.readuntil(b"done")).startswith(b"HTTP/1.1 200 OK")
        writer.write(HEAD)
        assert await reader.read() == b""

    talk(conversation)
