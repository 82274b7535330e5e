"""What one row says. Ids, counts and words from fixed sets; text of a client only where it is asked for."""

from __future__ import annotations

import time
from typing import Any

from kvant.gateway import prompt
from kvant.gateway.call import Served
from kvant.http.envelope import Refusal

MAX_WORD = 128
MAX_PROMPT = 65_536
"""Characters of a prompt; with the answer and all escapes, a row stays below `files.TAIL`."""


def ended(served: Served, address: str, client_id: str, prompts: bool) -> dict[str, Any]:
    """Of a call that an arm was asked for. The tokens are what its key is charged."""
    call = served.call
    row: dict[str, Any] = _head(call.id, call.key, address, call.path, served.status, client_id) | {
        "arm": served.arm,
        "replica": served.replica,
        "priority": call.priority,
        "outcome": served.error or "ok",
        "prompt_tokens": served.prompt_tokens,
        "tokens": served.tokens,
        "seconds": round(served.seconds, 6),
        "first": None if served.first is None else round(served.first, 6),
        "finish": served.finish,
        "tripped": served.tripped,
    }
    if prompts:
        row |= {"prompt": prompt.beginning(call.body, MAX_PROMPT), "text": served.text}
    return row


def refused(
    refusal: Refusal, call_id: str, key: str, address: str, path: str, client_id: str
) -> dict[str, Any]:
    """Of a request that was not let in, and is charged nothing."""
    return _head(call_id, key, address, path, refusal.status, client_id) | {"outcome": refusal.reason}


def steered(
    method: str, call_id: str, key: str, address: str, path: str, status: int, client_id: str
) -> dict[str, Any]:
    """Of what an administrator asked the gateway itself to do."""
    return _head(call_id, key, address, path, status, client_id) | {"outcome": "steered", "method": method}


def _head(call_id: str, key: str, address: str, path: str, status: int, client_id: str) -> dict[str, Any]:
    return {
        "time": round(time.time(), 6),
        "id": call_id,
        "client_id": client_id[:MAX_WORD],
        "key": key,
        "address": address[:MAX_WORD],
        "path": path[:MAX_WORD],
        "status": status,
    }
