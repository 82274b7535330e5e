"""W3C trace context: the trace goes on, the gateway is a span of its own in it."""

from __future__ import annotations

import re
import secrets

_PARENT = re.compile(r"00-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-([0-9a-f]{2})")
_STATE = re.compile(r"[\x20-\x7e]{1,512}")


def onward(parent: str | None, state: str | None) -> dict[str, str]:
    """The headers for the arm: the client's trace with a new span, or a new, unsampled trace."""
    found = _PARENT.fullmatch(parent or "")
    if found is None:
        return {"traceparent": f"00-{secrets.token_hex(16)}-{_span()}-00"}
    headers = {"traceparent": f"00-{found[1]}-{_span()}-{found[2]}"}
    if state and _STATE.fullmatch(state):
        headers["tracestate"] = state
    return headers


def _span() -> str:
    return secrets.token_hex(8)
