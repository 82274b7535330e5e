"""The client against a small server that speaks as vLLM does, and one that fails as it does."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from kvant.bench.serve.client import Broken, turn

Asked = list[dict[str, object]]


@pytest.fixture
def server() -> Iterator[tuple[str, Asked]]:
    """Answers two chunks, of one and of the other tokens; token 0 as prompt: fails half-way; 1: refuses."""
    asked: Asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            asked.append(body)
            self.send_response(400 if body["prompt"][0] == 1 else 200)
            self.end_headers()
            if body["prompt"][0] == 1:
                self.wfile.write(b"too long")
                return
            ids = list(range(body["max_tokens"]))
            chunks: list[object] = [
                {"choices": [{"text": "", "token_ids": ids[:1]}]},
                {"choices": [{"text": "", "token_ids": ids[1:]}]},
            ]
            if body["prompt"][0] == 0:
                chunks[1:] = [{"error": {"message": "the engine is dead"}}]
            if body["prompt"][0] == 2:
                chunks = chunks[:1]
            if body["prompt"][0] == 3:
                chunks[1:] = [{"choices": None}]
            for chunk in chunks:
                self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
            self.wfile.write(b"data: [DONE]\n\n")

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{http.server_port}", asked
        http.shutdown()


def test_token_ids_go_out_and_arrivals_come_back(server):
    url, asked = server
    streams = turn(url, [[7, 8], [9, 10]], 3)
    assert [[count for _, count in s.arrivals] for s in streams] == [[1, 2], [1, 2]]
    assert all(s.sent <= s.arrivals[0][0] <= s.arrivals[1][0] for s in streams)
    assert sorted(body["prompt"] for body in asked) == [[7, 8], [9, 10]]
    wanted = {"max_tokens": 3, "temperature": 0, "ignore_eos": True, "stream": True}
    assert all(body.items() >= wanted.items() for body in asked)


@pytest.mark.parametrize(
    ("first", "what"),
    [
        (0, "failed while it answered: .*the engine is dead"),
        (1, "answered 400: too long"),
        (2, "1 tokens where 3"),
        (3, "streamed what is no chunk of OpenAI's API: data: .*null"),
    ],
)
def test_a_failed_answer_is_an_error(server, first, what):
    with pytest.raises(Broken, match=what):
        turn(server[0], [[7], [first]], 3)


def test_a_server_that_is_gone_is_an_error():
    with pytest.raises(Broken, match="broke off: ConnectError"):
        turn("http://127.0.0.1:9", [[1]], 3)
