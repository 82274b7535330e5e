"""What of a request's body the gateway decides, whatever the client wrote."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any


def body(parsed: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The body for the arm.

    Cached prefixes are shared within a key and never between keys, so the salt is ours; nobody may run
    before others by a number of his own; and the usage of a stream is always counted.
    """
    sent = dict(parsed)
    sent.pop("cache_salt", None)
    if key:
        sent["cache_salt"] = hashlib.sha256(b"kvant key " + key.encode()).hexdigest()
    if isinstance(sent.get("priority"), int) and sent["priority"] < 0:
        sent["priority"] = 0
    if sent.get("stream") is True:
        options = sent.get("stream_options")
        sent["stream_options"] = {**(options if isinstance(options, dict) else {}), "include_usage": True}
    return sent


def wants_usage(parsed: Mapping[str, Any]) -> bool:
    """Whether the client itself asked for the usage of its stream."""
    options = parsed.get("stream_options")
    return isinstance(options, dict) and options.get("include_usage") is True
